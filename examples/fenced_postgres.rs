//! Rows in PostgreSQL that only the owner of a resource may change.
//!
//! ```text
//! tanist dev -- sh -c 'cargo run --release --example fenced_postgres -- \
//!     --database "host=localhost user=postgres" --cluster DIR/cluster --transfers 5'
//! ```
//!
//! The highest term lives in a table beside the rows. It is read, compared and raised in the **same
//! transaction** as the rows are changed, so an owner that was deposed and does not know it is refused from
//! the moment its successor came here, whatever it holds open and however late it wakes up.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tanist::client::{Client, Identity, Lease, Ticket};
use tanist::core::authority::{Authority, admit};
use tanist::core::certificate::Certificate;
use tanist::core::object::Key;
use tanist::core::write::Term;
use tokio::time::sleep;
use tokio_postgres::{Client as Database, NoTls, Transaction};

/// What owns the accounts.
const RESOURCE: &str = "accounts";

#[derive(Debug, Parser)]
struct Args {
    /// Where the database is, as libpq says it
    #[arg(long)]
    database: String,
    /// The cluster that owners are elected by: DIR/cluster
    #[arg(long)]
    cluster: PathBuf,
    #[arg(long, env = "TANIST_TICKET")]
    ticket: PathBuf,
    #[arg(long, env = "TANIST_KEY")]
    key: PathBuf,
    /// How often to move money
    #[arg(long, default_value_t = 5)]
    transfers: u64,
    /// How long the owner is trusted after it was last heard, in seconds
    #[arg(long, default_value_t = 2)]
    lease: u64,
    /// Wait in the middle of this transfer, inside its transaction, for somebody to kill this process
    #[arg(long)]
    wait_inside: Option<u64>,
    /// Wait before this transfer, for somebody to stop this process
    #[arg(long)]
    wait_before: Option<u64>,
}

/// Accounts in a database that looks at terms.
pub(crate) struct Accounts {
    database: Database,
    authority: Authority,
    resource: Key,
}

/// The term of an owner is over: a later one was here.
#[derive(Debug, thiserror::Error)]
#[error("fenced, term {0} is over")]
pub(crate) struct Fenced(Term);

impl Accounts {
    /// Connects. A transaction of an owner that hangs is given up by the database after the lease.
    pub(crate) async fn open(
        database: &str,
        authority: Authority,
        lease: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let (database, connection) = tokio_postgres::connect(database, NoTls).await?;
        tokio::spawn(connection);
        let schema = format!(
            "SET idle_in_transaction_session_timeout = {};
             SELECT pg_advisory_lock(20112);
             CREATE TABLE IF NOT EXISTS tanist_term (
                 resource bytea PRIMARY KEY, recovery bigint NOT NULL, number bigint NOT NULL);
             CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, balance bigint NOT NULL);
             CREATE TABLE IF NOT EXISTS entry (
                 id bigserial PRIMARY KEY, term bigint NOT NULL, amount bigint NOT NULL);
             INSERT INTO account VALUES ('alice', 1000), ('bob', 0) ON CONFLICT DO NOTHING;
             SELECT pg_advisory_unlock(20112);",
            lease.as_millis()
        );
        database.batch_execute(&schema).await?;
        Ok(Accounts { database, authority, resource: Key::try_from(RESOURCE)? })
    }

    /// Moves money, if `certificate` is of an owner that nobody followed here.
    pub(crate) async fn transfer(
        &mut self,
        certificate: &Certificate,
        amount: i64,
        inside: impl AsyncFnOnce(),
    ) -> Result<(), Box<dyn Error>> {
        // What the certificate proves does not depend on the database: it is checked first.
        let proven = self.authority.verify_for(certificate, &self.resource)?;
        let transaction = self.database.transaction().await?;
        enter(&transaction, &self.resource, proven.term).await?;
        let take = "UPDATE account SET balance = balance - $1 WHERE name = 'alice'";
        transaction.execute(take, &[&amount]).await?;
        inside().await;
        let give = "UPDATE account SET balance = balance + $1 WHERE name = 'bob'";
        transaction.execute(give, &[&amount]).await?;
        let term = i64::try_from(proven.term.number)?;
        transaction.execute("INSERT INTO entry (term, amount) VALUES ($1, $2)", &[&term, &amount]).await?;
        Ok(transaction.commit().await?)
    }
}

/// Compares and raises the highest term of a resource. Its row stays locked until the transaction ends, so
/// nobody can raise it between this look and the commit.
async fn enter(transaction: &Transaction<'_>, resource: &Key, term: Term) -> Result<(), Box<dyn Error>> {
    let name = resource.as_bytes();
    let first = "INSERT INTO tanist_term VALUES ($1, 0, 0) ON CONFLICT DO NOTHING";
    transaction.execute(first, &[&name]).await?;
    let look = "SELECT recovery, number FROM tanist_term WHERE resource = $1 FOR UPDATE";
    let row = transaction.query_one(look, &[&name]).await?;
    let (recovery, number): (i64, i64) = (row.get(0), row.get(1));
    let highest = Term { recovery: u32::try_from(recovery)?, number: u64::try_from(number)? };
    let highest = admit(Some(highest), term).map_err(|_| Fenced(term))?;
    let (recovery, number) = (i64::from(highest.recovery), i64::try_from(highest.number)?);
    let raise = "UPDATE tanist_term SET recovery = $2, number = $3 WHERE resource = $1";
    transaction.execute(raise, &[&name, &recovery, &number]).await?;
    Ok(())
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let lease = Duration::from_secs(args.lease);
    let authority = Authority::from_cluster_file(&std::fs::read_to_string(&args.cluster)?)?;
    let mut accounts = Accounts::open(&args.database, authority, lease).await?;
    let ticket: Ticket = std::fs::read_to_string(&args.ticket)?.parse()?;
    let client = Client::builder().identity(Identity::load(&args.key)?).connect(&ticket).await?;
    let tenure = client.resource(RESOURCE)?.campaign(Lease::try_from(lease)?).await?;
    println!("owner, term {}", tenure.term());
    let certificate = tenure.certificate();
    for n in 0..args.transfers {
        if args.wait_before == Some(n) {
            println!("waits before transfer {n}");
            sleep(Duration::from_secs(2)).await;
        }
        // Whether this process is still the owner is not asked again: the database knows.
        let moved = accounts
            .transfer(&certificate, 10, async || {
                if args.wait_inside == Some(n) {
                    println!("waits inside transfer {n}");
                    sleep(Duration::from_secs(60)).await;
                }
            })
            .await;
        match moved {
            Ok(()) => println!("transfer {n} under term {}", tenure.term()),
            Err(error) => {
                println!("transfer {n}: {error}");
                return Err(error);
            }
        }
    }
    tenure.resign().await?;
    Ok(())
}
