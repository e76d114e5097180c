//! A mail through a real server, by a process that is killed between every two of its steps.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Cluster, PATIENCE, free_port, now};

/// aiosmtpd, which keeps what it gets in a folder of mails. It ends with this.
struct Server {
    child: Child,
    port: u16,
    mails: PathBuf,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mails = folder.path().join("mails");
        let port = free_port();
        let child = Command::new(python())
            .args([
                "-m",
                "aiosmtpd",
                "-n",
                "-l",
                &format!("127.0.0.1:{port}"),
                "-c",
                "aiosmtpd.handlers.Mailbox",
            ])
            .arg(&mails)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { child, port, mails, _folder: folder };
        // It greets as soon as it listens; until then it is asked again.
        let begun = now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(now() - begun < PATIENCE, "the mail server does not start");
            std::thread::yield_now();
        }
        server
    }

    /// The mails that are there for an order.
    fn mails(&self, order: &str) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(self.mails.join("new")) else { return Vec::new() };
        let mails = files.flatten().map(|file| std::fs::read_to_string(file.path()).unwrap());
        mails.filter(|mail| mail.contains(&format!("Your order {order}\n"))).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Python with aiosmtpd, in a virtual environment beside the build.
fn python() -> PathBuf {
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let home = target.join("python-outside");
    let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/requirements.txt");
    let installed = home.join("installed.txt");
    let same = std::fs::read(&installed).ok() == std::fs::read(&wanted).ok();
    if !same {
        let _ = std::fs::remove_dir_all(&home);
        let made = Command::new("python3").args(["-m", "venv"]).arg(&home).status().unwrap();
        assert!(made.success(), "python3-venv is not installed: `.ci/setup` installs it");
        let pip = Command::new(home.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(&wanted)
            .status()
            .unwrap();
        assert!(pip.success(), "aiosmtpd cannot be installed");
        std::fs::copy(&wanted, &installed).unwrap();
    }
    home.join("bin/python")
}

#[test]
fn a_mail_is_sent_once_or_in_doubt_wherever_its_sender_dies() {
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = runtime.block_on(Cluster::start(Some("mail")));
    let run = |order: &str, options: &[&str]| {
        let mut command = cluster.example("mail_once");
        command.args(["--server", &format!("127.0.0.1:{}", server.port), "--order", order]).args(options);
        let ended = command.output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    for (order, step, sent, doubt) in [
        ("1", "connected", 0, false),
        ("2", "begun", 0, true),
        ("3", "sent", 1, true),
        ("4", "recorded", 1, false),
    ] {
        let (code, said) = run(order, &["--die-after", step]);
        assert_eq!(code, None, "{step}: {said}");
        assert_eq!(server.mails(order).len(), sent, "{step}");
        let (code, said) = run(order, &[]);
        if doubt {
            // It says that it does not know, and sends nothing by itself. The id tells who finds out.
            assert_eq!(code, Some(5), "{step}: {said}");
            let id = said.split(['\u{20}', ',']).nth(2).unwrap().to_owned();
            let mails = server.mails(order);
            assert_eq!(mails.len(), sent, "{step}");
            let found = mails.iter().any(|mail| mail.contains(&id));
            assert_eq!(found, sent == 1, "{step}: {id}");
            let (code, said) = run(order, &[if found { "--sent" } else { "--not-sent" }]);
            assert_eq!(code, Some(0), "{step}: {said}");
        } else {
            assert_eq!(code, Some(0), "{step}: {said}");
        }
        let (code, said) = run(order, &[]);
        assert!(code == Some(0) && said.contains("sent before"), "{step}: {said}");
        assert_eq!(server.mails(order).len(), 1, "{step}: exactly one mail in the end");
    }
    drop(cluster.folder);
}
