//! What happened in a run: too little is a failure, for a check of nothing cannot fail.

use std::collections::BTreeMap;

use tanist::client::attempt::Verdict;
use tanist::wire::client::Submitted;
use tanist::wire::registry::Reply;

use super::history::Asked;
use super::network::Cut;

/// Counts over one seed, or over many.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pub seeds: u64,
    pub writes: u64,
    pub repeats: u64,
    pub applied: u64,
    pub beside_siblings: u64,
    pub refused: u64,
    pub unknown: u64,
    pub failed: u64,
    pub reads: u64,
    pub outcomes: u64,
    pub messages: u64,
    pub lost_messages: u64,
    pub batches: u64,
    pub lost_batches: u64,
    pub crashes: u64,
    pub crashes_of_all: u64,
    pub cuts: BTreeMap<Cut, u64>,
    pub lost_rows: u64,
    pub rotten_rows: u64,
    pub restored: u64,
    pub wiped: u64,
    pub lied: u64,
    pub freezes: u64,
    pub full_disks: u64,
    pub failed_syncs: u64,
    pub forgot: u64,
    pub readmitted: u64,
    pub forged: u64,
    pub rejected: u64,
    pub malformed: u64,
    pub denied: u64,
    pub equivocations: u64,
    pub epochs: u64,
    pub p2_pairs: u64,
    pub behind_clocks: u64,
    pub live_at_end: u64,
    pub register_applied: u64,
    pub register_refused: u64,
    pub register_unknown: u64,
    pub register_reads: u64,
    pub verdicts: u64,
    pub forbidden: u64,
    pub seals: u64,
    pub fenced: u64,
    pub elections: u64,
    pub takeovers: u64,
    pub resigned: u64,
    pub lost_tenures: u64,
    pub paused_writes: u64,
}

impl Coverage {
    /// Counts how an operation ended.
    pub fn verdict(&mut self, asked: &Asked, verdict: &Verdict) {
        match (asked, verdict) {
            (Asked::Submit(_), Verdict::Answer(Reply::Submitted(Submitted::Applied { siblings, .. }))) => {
                self.applied += 1;
                self.beside_siblings += u64::from(!siblings.is_empty());
            }
            (Asked::Submit(_), Verdict::Answer(Reply::Submitted(_))) => self.refused += 1,
            (Asked::Submit(_), Verdict::Unknown(_)) => self.unknown += 1,
            (Asked::Submit(_), _) => self.failed += 1,
            (Asked::Read { .. }, Verdict::Answer(Reply::Versions(_))) => self.reads += 1,
            (Asked::Outcome(_), Verdict::Answer(Reply::Outcome(_))) => self.outcomes += 1,
            _ => {}
        }
    }

    /// The counts with their names.
    pub fn named(&self) -> Vec<(String, u64)> {
        let Coverage {
            seeds,
            writes,
            repeats,
            applied,
            beside_siblings,
            refused,
            unknown,
            failed,
            reads,
            outcomes,
            messages,
            lost_messages,
            batches,
            lost_batches,
            crashes,
            crashes_of_all,
            cuts,
            lost_rows,
            rotten_rows,
            restored,
            wiped,
            lied,
            freezes,
            full_disks,
            failed_syncs,
            forgot,
            readmitted,
            forged,
            rejected,
            malformed,
            denied,
            equivocations,
            epochs,
            p2_pairs,
            behind_clocks,
            live_at_end,
            register_applied,
            register_refused,
            register_unknown,
            register_reads,
            verdicts,
            forbidden,
            seals,
            fenced,
            elections,
            takeovers,
            resigned,
            lost_tenures,
            paused_writes,
        } = self;
        let plain = [
            ("seeds", seeds),
            ("writes", writes),
            ("repeats", repeats),
            ("applied", applied),
            ("applied beside siblings", beside_siblings),
            ("refused", refused),
            ("unknown", unknown),
            ("failed", failed),
            ("reads", reads),
            ("outcomes", outcomes),
            ("messages", messages),
            ("lost messages", lost_messages),
            ("batches", batches),
            ("lost batches", lost_batches),
            ("crashes", crashes),
            ("crashes of all", crashes_of_all),
            ("lost rows", lost_rows),
            ("rotten rows", rotten_rows),
            ("restored disks", restored),
            ("wiped disks", wiped),
            ("disks that lied", lied),
            ("stopped processes", freezes),
            ("full disks", full_disks),
            ("failed syncs", failed_syncs),
            ("amnesia noticed by peers", forgot),
            ("readmitted", readmitted),
            ("forged", forged),
            ("rejected versions", rejected),
            ("malformed frames", malformed),
            ("denied requests", denied),
            ("equivocations", equivocations),
            ("write epochs", epochs),
            ("concurrent pairs (P2)", p2_pairs),
            ("earlier than what they replace (P10)", behind_clocks),
            ("live versions at the end", live_at_end),
            ("register applied", register_applied),
            ("register refused", register_refused),
            ("register unknown", register_unknown),
            ("register reads", register_reads),
            ("verdicts", verdicts),
            ("forbidden", forbidden),
            ("seals", seals),
            ("fenced", fenced),
            ("elections", elections),
            ("takeovers", takeovers),
            ("resigned", resigned),
            ("lost tenures", lost_tenures),
            ("paused writes", paused_writes),
        ];
        let plain = plain.map(|(name, count)| (name.to_owned(), *count));
        let cuts = cuts.iter().map(|(cut, count)| (format!("cut: {cut:?}"), *count));
        plain.into_iter().chain(cuts).collect()
    }

    /// Adds another seed's counts.
    pub fn add(&mut self, other: &Coverage) {
        macro_rules! sum {
            ($($field:ident)*) => { $(self.$field += other.$field;)* };
        }
        sum!(seeds writes repeats applied beside_siblings refused unknown failed reads outcomes messages
             lost_messages batches lost_batches crashes crashes_of_all lost_rows rotten_rows restored wiped lied
             freezes full_disks failed_syncs forgot
             readmitted forged rejected malformed denied equivocations epochs p2_pairs
             behind_clocks live_at_end
             register_applied register_refused register_unknown register_reads verdicts forbidden seals
             fenced elections takeovers resigned lost_tenures paused_writes);
        for (cut, count) in &other.cuts {
            *self.cuts.entry(*cut).or_default() += count;
        }
    }

    /// Whether enough of everything happened in a run of many seeds.
    pub fn is_enough(&self) -> Result<(), String> {
        let rare = ["failed", "readmitted", "malformed frames", "equivocations"];
        for (name, count) in self.named() {
            if count == 0 && !rare.contains(&name.as_str()) {
                return Err(format!("nothing happened of: {name}"));
            }
        }
        let per_seed = |count: u64| count / self.seeds.max(1);
        if per_seed(self.applied) < 5 || per_seed(self.reads) < 3 || self.p2_pairs < self.seeds {
            return Err("too few operations succeeded, or too few met each other".to_owned());
        }
        if self.cuts.len() < super::network::CUTS.len() {
            return Err("a shape of partition never occurred".to_owned());
        }
        Ok(())
    }
}
