//! Which replica is asked when, and what the answers mean together: sans-IO.
