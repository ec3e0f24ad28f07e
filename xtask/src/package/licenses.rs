//! The licenses of everything by others that the binary contains: of the crates that are linked, from their sources, of Rust's library and,
//! where it is linked statically, of the C library.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::kit::Kit;
use super::linked::{self, Crate};
use super::sbom::{self, Program};
use super::tree::Tree;
use crate::workspace;

/// What the file is called, and that of Rust's library beside it.
pub(super) const NAME: &str = "THIRD-PARTY-LICENSES";
pub(super) const OF_RUST: &str = "rust-library-licenses.html";

/// Where the C library's license lies on Debian.
const LGPL: &str = "/usr/share/common-licenses/LGPL-2.1";

/// How the names of files begin that hold licenses, in capitals.
const BEGINNINGS: [&str; 7] =
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE", "PATENTS"];

/// How deep they are looked for: a crate that contains parts of others keeps theirs beside these.
const DEEPEST: usize = 4;

/// Puts the files of a program into a folder of a tree, and the list of its parts beside them.
pub(super) fn put(kit: &Kit, tree: &Tree, program: Program<'_>, folder: &str) -> Result<(), String> {
    let linked = linked::linked(&kit.root, program.name, kit.machine.target())?;
    let parts = sbom::write(kit, program, &linked)?;
    tree.write(&format!("{folder}{}", sbom::name(program.name)), 0o644, parts)?;
    let mut crates = Vec::new();
    for each in linked.crates {
        let texts = texts_of(&each)?;
        crates.push((each, texts));
    }
    let lgpl = fs::read_to_string(LGPL).map_err(|error| format!("{LGPL}: {error}"))?;
    tree.write(&format!("{folder}{NAME}"), 0o644, compose(&crates, &lgpl))?;
    let sysroot = workspace::output(&kit.root, "rustc", &["--print", "sysroot"])?;
    let of_rust = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    tree.copy(&of_rust, &format!("{folder}{OF_RUST}"), 0o644)
}

/// The texts of a crate's licenses and notices.
fn texts_of(each: &Crate) -> Result<Vec<String>, String> {
    let folder = each.manifest_path.parent().unwrap_or(Path::new("."));
    let mut files = Vec::new();
    find(folder, DEEPEST, &mut files).map_err(|error| format!("{}: {error}", folder.display()))?;
    if files.is_empty() {
        return Err(format!("{} {} has no file with its license: name it here", each.name, each.version));
    }
    files.sort();
    let read = |file: &PathBuf| {
        fs::read(file)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| format!("{}: {error}", file.display()))
    };
    files.iter().map(read).collect()
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (kind, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if kind?.is_dir() {
            if depth > 1 {
                find(&path, depth - 1, files)?;
            }
        } else if BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) && !name.ends_with(".RS") {
            files.push(path);
        }
    }
    Ok(())
}

/// The list of crates, and each text once, with the crates that it belongs to.
fn compose(crates: &[(Crate, Vec<String>)], lgpl: &str) -> String {
    let mut text =
        "Guira's program contains these works of others, each under the license beside its name:\n\n"
            .to_owned();
    let mut owners = BTreeMap::<String, (usize, &str, Vec<String>)>::new();
    for (each, texts) in crates {
        let name = format!("{} {}", each.name, each.version);
        let license = each.license.as_deref().unwrap_or("see below");
        let _ = writeln!(text, "  {name}: {license}  {}", each.repository.as_deref().unwrap_or_default());
        for one in texts {
            // Equal but for blanks and ends of lines.
            let words = one.split_whitespace().collect::<Vec<_>>().join(" ");
            let number = owners.len();
            let owners = &mut owners.entry(words).or_insert((number, one, Vec::new())).2;
            if owners.last() != Some(&name) {
                owners.push(name.clone());
            }
        }
    }
    let _ = write!(
        text,
        "  Rust's standard library: MIT OR Apache-2.0; {OF_RUST} beside this file has its notices\n  \
         The GNU C Library, in programs that are linked with it statically (those of the tarball and of the image): \
         LGPL-2.1-or-later; Guira's source is what it takes to link them with another version of it\n"
    );
    let mut owners: Vec<_> = owners.into_values().collect();
    owners.sort_by_key(|(number, ..)| *number);
    let lgpl = (owners.len(), lgpl, vec!["The GNU C Library".to_owned()]);
    for (_, license, owners) in owners.into_iter().chain([lgpl]) {
        let _ = write!(text, "\n{}\nOf {}:\n\n{}\n", "-".repeat(80), owners.join(", "), license.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, folder: &Path) -> Crate {
        Crate {
            id: name.into(),
            name: name.into(),
            version: "1.0.0".into(),
            license: Some("MIT".into()),
            repository: None,
            manifest_path: folder.join("Cargo.toml"),
        }
    }

    #[test]
    fn a_text_that_several_have_is_there_once_with_the_names_of_all() {
        let nowhere = Path::new("/nowhere");
        let both = ["One\nLicense\n".to_owned(), "Another\n".to_owned()];
        let crates =
            [(of("first", nowhere), both.to_vec()), (of("second", nowhere), vec!["One License".to_owned()])];
        let text = compose(&crates, "The LGPL");
        assert!(text.contains("  first 1.0.0: MIT") && text.contains("  second 1.0.0: MIT"), "{text}");
        assert!(text.contains("\nOf first 1.0.0, second 1.0.0:\n\nOne\nLicense\n"), "{text}");
        assert!(text.contains("\nOf first 1.0.0:\n\nAnother\n"), "{text}");
        assert!(!text.contains("One License") && text.ends_with("The LGPL\n"), "{text}");
    }

    #[test]
    fn licenses_are_found_below_a_crate_and_a_crate_without_one_is_an_error() {
        let folder = std::env::temp_dir().join(format!("xtask-licenses-{}", std::process::id()));
        let deep = folder.join("third_party/part");
        fs::create_dir_all(&deep).expect("a folder");
        fs::write(folder.join("license.rs"), "code").expect("a file");
        let error = texts_of(&of("bare", &folder)).expect_err("it has none");
        assert!(error.contains("bare 1.0.0"), "{error}");
        fs::write(folder.join("LICENSE-MIT"), "mit").expect("a file");
        fs::write(deep.join("Copying.txt"), "part").expect("a file");
        assert_eq!(texts_of(&of("full", &folder)), Ok(vec!["mit".to_owned(), "part".to_owned()]));
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
