//! The commands of this project that its documents show, so that a test can parse each of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files whose blocks of code are read, from the root of the repository.
const PAGES: &[&str] = &["README.md", "docs/README.md", "docs/guide", "docs/develop/laboratory.md"];
/// What stands between commands of a line.
const SEPARATES: [&str; 4] = ["|", "&", "&&", ";"];
/// What follows the words of a command.
const REDIRECTS: [&str; 4] = ["<", ">", ">>", "2>&1"];

/// A command as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    pub place: String,
    /// Its words, from the program on.
    pub words: Vec<String>,
}

/// The commands of these programs in blocks of code of all pages.
///
/// # Panics
/// If a page cannot be read.
pub fn commands(programs: &[&str]) -> Vec<Documented> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = PAGES.iter().flat_map(|page| files(&root.join(page)));
    let of_page = |page: PathBuf| {
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        in_page(&name, &text, programs)
    };
    pages.flat_map(of_page).collect()
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files
}

fn in_page(name: &str, text: &str, programs: &[&str]) -> Vec<Documented> {
    let (mut found, mut is_code, mut before) = (Vec::new(), false, String::new());
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if !is_code {
            continue;
        }
        let line = std::mem::take(&mut before) + line.trim();
        if let Some(begun) = line.strip_suffix('\\') {
            before = begun.to_owned();
            continue;
        }
        let line = line.strip_prefix("$ ").unwrap_or(&line);
        let words = words(line);
        let commands = words.split(|word| SEPARATES.contains(&word.as_str())).map(without_wrapper);
        let ours =
            commands.filter(|words| words.first().is_some_and(|word| programs.contains(&word.as_str())));
        found.extend(ours.map(|words| Documented {
            place: format!("{name}:{number}"),
            words: words.iter().take_while(|word| !REDIRECTS.contains(&word.as_str())).cloned().collect(),
        }));
    }
    found
}

/// A command without what runs it as another user.
fn without_wrapper(words: &[String]) -> &[String] {
    match words {
        [sudo, user, _, rest @ ..] if sudo == "sudo" && user == "-u" => rest,
        [sudo, rest @ ..] if sudo == "sudo" => rest,
        words => words,
    }
}

/// The words of a line as a shell has them, up to a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_blocks_of_code_and_end_as_in_a_shell() {
        let page = "guira prose\n```sh\n$ guira sim --policy 'a b'   # why\ncat x | sudo -u me guira check \\\n  --stdin < keys\nnc x\n```\n";
        let found = in_page("page.md", page, &["guira"]);
        let words: Vec<Vec<&str>> =
            found.iter().map(|one| one.words.iter().map(String::as_str).collect()).collect();
        assert_eq!(words, [vec!["guira", "sim", "--policy", "a b"], vec!["guira", "check", "--stdin"]]);
        assert_eq!(found[1].place, "page.md:5");
        assert!(commands(&["guira"]).len() > 20, "the pages show commands");
    }
}
