// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Running other programs.

use core::time::Duration;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

/// The command as one would type it, nearly.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = core::iter::once(program).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        if word.contains(' ') { format!("'{word}'") } else { word.into_owned() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Runs the command with our own output; an error says what ran and how it ended.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed ({status})", line(command))),
        Err(why) => Err(format!("cannot run `{}`: {why}", line(command))),
    }
}

/// Whether the command can be run and succeeds; what it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// What the command prints, if it can be run and succeeds.
pub(crate) fn stdout(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the command with all its output going to `log`, and ends it after `limit`.
pub(crate) fn run_logged(command: &mut Command, log: &File, limit: Duration) -> Result<(), String> {
    let handle = || log.try_clone().map_err(|why| format!("cannot use the log file twice: {why}"));
    command.stdin(Stdio::null()).stdout(handle()?).stderr(handle()?);
    // In a group of its own, a hung test dies with the cargo that started it. At a terminal the child stays in
    // our group, so that Ctrl-C reaches it.
    let own_group = !io::stdin().is_terminal();
    if own_group {
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|why| format!("cannot run `{}`: {why}", line(command)))?;
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("`{}` failed ({status})", line(command))),
            Ok(None) if start.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            Ok(None) => break,
            Err(why) => return Err(format!("cannot wait for `{}`: {why}", line(command))),
        }
    }
    if own_group {
        succeeds(Command::new("kill").args(["-KILL", "--"]).arg(format!("-{}", child.id())));
    }
    // An error means that it is gone already, which is what we want.
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("`{}` was ended: not done after {} s", line(command), limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_as_typed() {
        assert_eq!(line(Command::new("/usr/bin/ls").args(["-l", "a b"])), "ls -l 'a b'");
    }

    #[test]
    fn a_hanging_command_is_ended() -> io::Result<()> {
        let log = File::options().write(true).open("/dev/null")?;
        let start = Instant::now();
        let ended = run_logged(Command::new("sleep").arg("60"), &log, Duration::from_millis(50));
        assert!(ended.is_err_and(|why| why.contains("`sleep 60` was ended")));
        assert!(start.elapsed() < Duration::from_secs(30));
        Ok(())
    }

    #[test]
    fn a_failure_says_what_ran() -> io::Result<()> {
        let log = File::options().write(true).open("/dev/null")?;
        let limit = Duration::from_secs(30);
        assert_eq!(run_logged(&mut Command::new("true"), &log, limit), Ok(()));
        assert!(
            run_logged(&mut Command::new("false"), &log, limit)
                .is_err_and(|why| why.starts_with("`false` failed"))
        );
        let absent = run_logged(&mut Command::new("kofi-no-such-program"), &log, limit);
        assert!(absent.is_err_and(|why| why.starts_with("cannot run `kofi-no-such-program`")));
        Ok(())
    }
}
