// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What a command ends with when it does not succeed.

use std::io;
use std::process::ExitCode;

/// Why a command failed, for one line on stderr.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was wanted, what was found, what to do.
    Run(String),
    /// Standard output cannot be written to.
    Output(io::Error),
}

pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Says on stderr what went wrong, and gives the exit code.
    ///
    /// Whoever reads our output may have seen enough (`kofi info | head -1`): that is no failure.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => {
                eprintln!("kofi: standard output cannot be written to: {error}");
                ExitCode::FAILURE
            }
            Self::Run(text) => {
                eprintln!("kofi: {text}");
                ExitCode::FAILURE
            }
        }
    }
}

impl Failure {
    /// The same, with what to do.
    pub(crate) fn hint(self, hint: &str) -> Self {
        match self {
            Self::Run(text) => Self::Run(format!("{text}; {hint}")),
            output => output,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Run(text)
    }
}

impl From<kofi::Error> for Failure {
    fn from(error: kofi::Error) -> Self {
        Self::Run(error.to_string())
    }
}

impl From<kofi::Refused> for Failure {
    fn from(refused: kofi::Refused) -> Self {
        refused.error.into()
    }
}

impl<T> From<kofi::Returned<T>> for Failure {
    fn from(returned: kofi::Returned<T>) -> Self {
        returned.error.into()
    }
}
