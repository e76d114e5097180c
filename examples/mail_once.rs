//! A mail that is sent once, or is in doubt: an effect that nothing can take back or fence.
//!
//! ```text
//! cargo run --release --example mail_once -- --server localhost:25 --order 123 --to someone@example.org
//! ```
//!
//! Before the mail is sent the ledger says that it is about to be, and after it that it was. Killed in
//! between, the next run does not know whether it was sent, and says so: whoever finds out (the id of the
//! run is the Message-ID) decides with `--sent` or `--not-sent`.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use lettre::message::header::ContentType;
use lettre::{Message, SmtpTransport, Transport as _};
use tanist::client::{Client, Identity, Lease, Once, Ticket};

/// Exit code: whether it was sent is not known.
const IN_DOUBT: i32 = 5;

#[derive(Debug, Parser)]
struct Args {
    /// The mail server, as HOST:PORT
    #[arg(long)]
    server: String,
    /// The order that the receipt is for
    #[arg(long)]
    order: String,
    /// Who gets it
    #[arg(long, default_value = "someone@example.org")]
    to: String,
    #[arg(long, env = "TANIST_TICKET")]
    ticket: PathBuf,
    #[arg(long, env = "TANIST_KEY")]
    key: PathBuf,
    /// Decide about a mail in doubt: it was sent
    #[arg(long, conflicts_with = "not_sent")]
    sent: bool,
    /// Decide about a mail in doubt: it was not sent
    #[arg(long)]
    not_sent: bool,
    /// For the test: end as if killed after this step
    #[arg(long)]
    die_after: Option<Step>,
}

/// The steps, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    Connected,
    Begun,
    Sent,
    Recorded,
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let step = |step: Step| {
        if args.die_after == Some(step) {
            println!("dies after {step:?}");
            // Nothing is cleaned up, as with SIGKILL.
            std::process::abort();
        }
    };
    let ticket: Ticket = std::fs::read_to_string(&args.ticket)?.parse()?;
    let client = Client::builder().identity(Identity::load(&args.key)?).connect(&ticket).await?;
    let mail = client.linearizable("mail").await?;
    let receipt = || Ok::<_, Box<dyn Error>>(mail.once(format!("order-{}/receipt", args.order))?);
    let lease = Lease::try_from(Duration::from_secs(1))?;
    let wait = Duration::from_secs(10);
    step(Step::Connected);
    if args.sent {
        receipt()?.lease(lease).wait(wait).decide_done("found in the mailbox").await?;
        println!("decided: it was sent");
        return Ok(());
    }
    if args.not_sent {
        receipt()?.lease(lease).wait(wait).decide_again().await?;
        println!("decided: it was not sent");
    }
    match receipt()?.lease(lease).wait(wait).begin().await? {
        Once::Mine(run) => {
            step(Step::Begun);
            let id = run.id();
            let message = send(&args, &id)?;
            step(Step::Sent);
            run.done(message).await?;
            step(Step::Recorded);
            println!("sent as {id}");
        }
        Once::Done(message) => println!("sent before: {}", String::from_utf8_lossy(&message)),
        Once::InDoubt { by, run, .. } => {
            println!("in doubt: {run}, begun by {by}");
            std::process::exit(IN_DOUBT);
        }
    }
    Ok(())
}

/// Hands the mail to the server; its Message-ID is the run's.
fn send(args: &Args, run: &str) -> Result<String, Box<dyn Error>> {
    let (host, port) = args.server.rsplit_once(':').ok_or("a server is HOST:PORT")?;
    let id = format!("<{run}@tanist.example>");
    let message = Message::builder()
        .message_id(Some(id.clone()))
        .from("shop@example.org".parse()?)
        .to(args.to.parse()?)
        .subject(format!("Your order {}", args.order))
        .header(ContentType::TEXT_PLAIN)
        .body(format!("Thank you for order {}.\n", args.order))?;
    SmtpTransport::builder_dangerous(host).port(port.parse()?).build().send(&message)?;
    Ok(id)
}
