//! Man pages and completions of shells, made of a command line itself.

use std::path::Path;
use std::{fs, io};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::{output, whole};

/// The shells, and where below `share` of an installation each looks for the completions of a program.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/", ""),
    (Shell::Zsh, "zsh/vendor-completions/_", ""),
    (Shell::Fish, "fish/vendor_completions.d/", ".fish"),
];

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command to describe, such as `fleet create` [default: the program itself]
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// Write all man pages and completions below this folder, the `share` of an installation.
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    all: Option<std::path::PathBuf>,
}

/// Prints the completions for a shell.
///
/// # Errors
/// If standard output cannot be written to.
pub fn completions(program: &'static str, command: &Command, args: &CompletionsArgs) -> Result<(), Failure> {
    output::print(&completion(program, &shown(program, command), args.shell))
}

/// Prints a man page, or writes all of them.
///
/// # Errors
/// If there is no such command, or the pages cannot be written.
pub fn man(program: &'static str, command: &Command, args: &ManArgs) -> Result<(), Failure> {
    match &args.all {
        Some(folder) => write(program, &shown(program, command), folder)
            .map_err(Failure::system("cannot write the pages")),
        None => output::print(&page_of(program, shown(program, command), &args.words)?),
    }
}

fn page_of(program: &str, command: Command, words: &[String]) -> Result<String, Failure> {
    let (mut found, mut name) = (command, program.to_owned());
    for word in words {
        let next = found.find_subcommand(word).cloned();
        found = next.ok_or_else(|| Failure::usage(format!("{name} has no command {word}")))?;
        name = format!("{name}-{word}");
    }
    page(found, &name).map_err(Failure::system("cannot write the page"))
}

fn completion(program: &str, command: &Command, shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command.clone(), program, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes `man/man1` and the folders of the shells.
fn write(program: &str, command: &Command, folder: &Path) -> io::Result<()> {
    for (shell, before, after) in SHELLS {
        save(&folder.join(format!("{before}{program}{after}")), &completion(program, command, shell))?;
    }
    write_pages(command, program, &folder.join("man/man1"))
}

/// Writes the page of a command, and those of all commands below it.
fn write_pages(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    save(&folder.join(format!("{name}.1")), &page(command.clone(), name)?)?;
    command
        .get_subcommands()
        .try_for_each(|task| write_pages(task, &format!("{name}-{}", task.get_name()), folder))
}

/// The command without its hidden commands, which are for the project itself or for the image.
fn shown(program: &'static str, command: &Command) -> Command {
    let tasks = command.get_subcommands().filter(|task| !task.is_hide_set()).cloned();
    Command::new(program)
        .version(crate::VERSION)
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommands(tasks)
}

fn page(command: Command, name: &str) -> io::Result<String> {
    let spaced = name.replace('-', " ").replace("guira lab", crate::LAB);
    let command = command.version(crate::VERSION).display_name(name.to_owned()).bin_name(spaced);
    let mut text = Vec::new();
    clap_mangen::Man::new(command.disable_help_subcommand(true)).manual("Guira").render(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

fn save(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    whole::write(path, text)
}
