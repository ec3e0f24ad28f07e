//! Errors as a person reads them, and the exit codes.

use std::error::Error;
use std::process::ExitCode;

use guira_invalidator::ReplayError;
use guira_load::LoadError;
use guira_server::StartError;
use guira_top::TerminalError;

/// Why a subcommand failed.
///
/// Exit codes: 1 when the work failed, 2 when the arguments make no sense (clap's own code), 3 when a server
/// answered wrongly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments contradict each other or the machine.
    #[error("{0}")]
    Usage(String),
    /// A load, replay or bench failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] crate::options::ConfigError),
    /// The server's options make no sense.
    #[error(transparent)]
    Options(#[from] guira_server::OptionsError),
    /// The files of users or certificates cannot be used.
    #[error(transparent)]
    Secrets(#[from] guira_server::SecretsError),
    /// The router cannot be started.
    #[error(transparent)]
    Router(#[from] guira_router::StartError),
    /// etcd cannot be asked.
    #[error(transparent)]
    Etcd(#[from] guira_control::EtcdError),
    /// A pool in etcd cannot be read or changed.
    #[error(transparent)]
    Pools(#[from] guira_control::StoreError),
    /// A server of a pool does not do what it is asked to.
    #[error("{server}: {error}")]
    Server { server: String, error: guira_control::AskError },
    /// What was begun with a pool cannot go on.
    #[error("{0}")]
    Pool(String),
    /// Logged deletes cannot be replayed.
    #[error(transparent)]
    Replay(#[from] guira_router::ReplayError),
    /// The configuration of the router cannot be used.
    #[error(transparent)]
    Routes(#[from] guira_router::LoadError),
    /// A request goes nowhere.
    #[error(transparent)]
    Explain(guira_router::ExplainError),
    /// The configuration of the invalidator cannot be used.
    #[error(transparent)]
    Invalidation(#[from] guira_invalidator::ConfigError),
    /// The invalidator cannot be started.
    #[error(transparent)]
    Invalidator(#[from] guira_invalidator::StartError),
    /// The invalidator cannot go on.
    #[error("the invalidator stops")]
    Invalidating(#[from] guira_invalidator::Fault),
    /// The configuration of the checker cannot be used.
    #[error(transparent)]
    Checking(#[from] guira_checker::ConfigError),
    /// The checker cannot be started.
    #[error(transparent)]
    Checker(#[from] guira_checker::StartError),
    /// A part of the log cannot be delivered once more.
    #[error(transparent)]
    Redelivering(#[from] ReplayError),
    /// A signal came before the end.
    #[error("it was told to stop before everything was delivered")]
    Interrupted,
    /// The server did not stop as it should.
    #[error(transparent)]
    Stop(#[from] guira_server::StopError),
    /// The server cannot be started.
    #[error(transparent)]
    Start(#[from] guira_server::StartError),
    /// It was not taken over, and cannot go on.
    #[error(transparent)]
    HandOver(#[from] guira_server::HandOverError),
    /// TLS of a client cannot be set up.
    #[error(transparent)]
    Tls(#[from] guira_client::tls::TlsError),
    /// The file with user and password cannot be used.
    #[error(transparent)]
    Login(#[from] guira_client::text::LoginError),
    /// There is no terminal to show a screen on.
    #[error(transparent)]
    Terminal(#[from] guira_top::TerminalError),
    /// Servers that were asked did not answer.
    #[error("{silent} of {all} nodes did not answer")]
    Unanswered { silent: usize, all: usize },
    /// A region for demonstration cannot be started.
    #[error(transparent)]
    Demo(#[from] guira_demo::DemoError),
    /// Nothing can be broken.
    #[error(transparent)]
    Control(#[from] guira_demo::ControlError),
    /// Users have read, or caches have, what they must not.
    #[error("{0} answers or values in caches are wrong")]
    WrongAnswers(usize),
    /// A system call failed.
    #[error("{action}")]
    System { action: &'static str, source: std::io::Error },
}

impl Failure {
    pub(crate) fn system(action: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    /// Whether the command line or the configuration is at fault.
    pub(crate) const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Usage(_)
                | Self::Config(_)
                | Self::Options(_)
                | Self::Invalidation(_)
                | Self::Checking(_)
                | Self::Redelivering(ReplayError::Wanted(_) | ReplayError::Config(_))
                | Self::Terminal(TerminalError::None)
                | Self::Load(LoadError::Options(_))
                | Self::Start(StartError::NamelessDatagrams | StartError::LittleMemory { .. })
        )
    }

    /// Prints the failure with its causes; returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let mut text = format!("guira: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        eprintln!("{text}");
        ExitCode::from(match self {
            _ if self.is_usage() => 2,
            Self::Load(LoadError::WrongReplies { .. }) | Self::WrongAnswers(_) => 3,
            _ => 1,
        })
    }
}
