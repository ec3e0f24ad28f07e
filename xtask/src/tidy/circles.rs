//! The files of a crate depend on each other one way: no circle has more than two files.
//!
//! A file depends on another if it names a path to something there, by `crate::`, `self::` or `super::`; a name that a module re-exports leads
//! to where it is defined. In engines re-exports, and paths that begin with the name of a child, count too. Tests are left out.

use super::Finding;
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// In crates in this folder a module depends on its children if it re-exports or uses what they define.
const STRICT: &str = "engines/";

/// The most files of a circle.
const CIRCLE: usize = 2;

/// Circles that are larger: one of the files, and the number of files. This list may only become shorter.
const EXCEPTIONS: &[(&str, usize)] = &[("papers/src/experiment.rs", 7)];

/// This file, which has the exceptions.
const HERE: &str = "xtask/src/tidy/circles.rs";

/// The modules of a crate, by path: `index::list`. The root is the empty path.
struct Modules<'s> {
    files: BTreeMap<String, File<'s>>,
    /// Whether a module depends on its children if it re-exports or uses what they define.
    is_strict: bool,
}

struct File<'s> {
    path: &'s str,
    /// The code without tests.
    code: String,
}

/// The end of a path: a module, and a name in it, empty for the module itself.
type End = (String, String);

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    check_with(sources, EXCEPTIONS)
}

fn check_with(sources: &[Source], exceptions: &[(&str, usize)]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some((name, _)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().push(source);
        }
    }
    let circles: Vec<Vec<&str>> =
        crates.into_iter().flat_map(|(name, sources)| circles_of(name, &sources)).collect();
    let too_large = circles.iter().filter_map(|files| too_large(files, exceptions));
    let too_generous = exceptions.iter().filter_map(|exception| too_generous(*exception, &circles));
    too_large.chain(too_generous).collect()
}

/// The circles of a crate, as paths of files.
fn circles_of<'s>(name: &str, sources: &[&'s Source]) -> Vec<Vec<&'s str>> {
    let modules = Modules::of(name, sources);
    let files = |circle: BTreeSet<String>| circle.iter().map(|module| modules.files[module].path).collect();
    modules.circles().into_iter().map(files).collect()
}

fn too_large(files: &[&str], exceptions: &[(&str, usize)]) -> Option<Finding> {
    let exception = exceptions.iter().find(|(file, _)| files.contains(file));
    let most = exception.map_or(CIRCLE, |(_, most)| *most);
    (files.len() > most).then(|| {
        let what = format!("{} files depend on each other: {}", files.len(), files.join(", "));
        Finding::new(files[0], 1, what, "move what several of them need into a file of its own")
    })
}

/// An exception that allows more files than there are in its circle, or that is not needed.
fn too_generous((file, most): (&str, usize), circles: &[Vec<&str>]) -> Option<Finding> {
    let length = circles.iter().find(|files| files.contains(&file)).map_or(0, Vec::len);
    if length >= most && length > CIRCLE {
        return None;
    }
    let what = format!("the exception for {file} allows a circle of {most} files, which has {length}");
    let remedy = if length > CIRCLE { "lower it" } else { "remove it" };
    Some(Finding::new(HERE, 1, what, remedy))
}

impl<'s> Modules<'s> {
    fn of(name: &str, sources: &[&'s Source]) -> Self {
        let all = sources.iter().filter_map(|source| {
            let module = module_of(source.path.strip_prefix(name)?.strip_prefix("/src/")?);
            Some((module, File { path: &source.path, code: without_tests(&source.code) }))
        });
        let mut files: BTreeMap<String, File<'s>> = all.collect();
        let declares = |parent: &str, child: &str| {
            files.get(parent).is_some_and(|file| words(&file.code).any(|at| is_mod(&file.code[at..], child)))
        };
        // The declaration of a test module was cut out with its attribute, so nothing declares it, nor what is below it.
        let is_code = |module: &str| {
            let below = module.match_indices("::").map(|(at, _)| at).chain([module.len()]);
            below.map(|end| &module[..end]).all(|module| {
                let (parent, child) = module.rsplit_once("::").unwrap_or(("", module));
                module.is_empty() || declares(parent, child)
            })
        };
        let tests: Vec<String> = files.keys().filter(|module| !is_code(module)).cloned().collect();
        files.retain(|module, _| !tests.contains(module));
        Modules { files, is_strict: name.starts_with(STRICT) }
    }

    /// The ends of the paths in a module. `is_wanted` decides by what stands before a path, and by its first word.
    fn ends(&self, module: &str, is_wanted: impl Fn(&str, &str) -> bool) -> BTreeSet<End> {
        let code = &self.files[module].code;
        let mut ends = BTreeSet::new();
        for at in words(code).filter(|at| !code[..*at].ends_with("::")) {
            let (word, rest) = word(&code[at..]);
            if !is_wanted(&code[..at], word) {
                continue;
            }
            let child = joined(module, word);
            let base = match word {
                "crate" => String::new(),
                "self" => module.to_owned(),
                "super" => parent(module),
                _ if self.files.contains_key(&child) => child,
                _ => continue,
            };
            if let Some(rest) = rest.strip_prefix("::") {
                self.follow(&base, rest, &mut ends);
            }
        }
        ends
    }

    /// Follows a path, or a group of paths in braces, from the module `base`. Returns what is behind it.
    fn follow<'c>(&self, base: &str, path: &'c str, ends: &mut BTreeSet<End>) -> &'c str {
        if let Some(mut rest) = path.strip_prefix('{') {
            loop {
                rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
                if rest.is_empty() || rest.starts_with('}') {
                    return rest.get(1..).unwrap_or_default();
                }
                let before = rest.len();
                rest = self.follow(base, rest, ends);
                // ` as name`
                let end = rest.find([',', '}']).unwrap_or(rest.len());
                rest = &rest[if rest.len() == before { end.max(1) } else { end }..];
            }
        }
        let (name, rest) = word(path);
        let next = match name {
            "super" => parent(base),
            "self" => base.to_owned(),
            _ => joined(base, name),
        };
        let is_module = self.files.contains_key(&next);
        match rest.strip_prefix("::") {
            Some(rest) if is_module => return self.follow(&next, rest, ends),
            _ if is_module => ends.insert((next, String::new())),
            _ => ends.insert((base.to_owned(), name.to_owned())),
        };
        rest
    }

    /// For each module, the modules that it uses.
    fn uses(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let is_reexport = |before: &str| {
            let line = before.rsplit([';', '}', '\n']).next().unwrap_or_default().trim();
            line.starts_with("pub") && line.ends_with("use")
        };
        let modules = || self.files.keys().map(String::as_str);
        let reexports: BTreeMap<&str, BTreeSet<End>> =
            modules().map(|module| (module, self.ends(module, |before, _| is_reexport(before)))).collect();
        let defined_in = |(mut module, name): End| {
            // Names of a chain of re-exports stay the same.
            while let Some((next, _)) = reexports[module.as_str()].iter().find(|(_, known)| *known == name)
                && *next != module
                && !name.is_empty()
            {
                module = next.clone();
            }
            module
        };
        let is_use = |before: &str, first: &str| {
            self.is_strict || (matches!(first, "crate" | "self" | "super") && !is_reexport(before))
        };
        let used_by = |module: &str| {
            let mut used: BTreeSet<String> = self.ends(module, is_use).into_iter().map(defined_in).collect();
            used.remove(module);
            used
        };
        modules().map(|module| (module, used_by(module))).collect()
    }

    /// Sets of modules each of which leads to all others of its set.
    fn circles(&self) -> Vec<BTreeSet<String>> {
        let used = self.uses();
        let reached = |from: &str| {
            let mut reached = BTreeSet::new();
            let mut left: Vec<&str> = vec![from];
            while let Some(module) = left.pop() {
                left.extend(
                    used[module].iter().filter(|next| reached.insert((*next).clone())).map(String::as_str),
                );
            }
            reached
        };
        let reached: BTreeMap<&str, BTreeSet<String>> =
            self.files.keys().map(|module| (module.as_str(), reached(module))).collect();
        let circle = |module: &str| -> BTreeSet<String> {
            reached[module].iter().filter(|other| reached[other.as_str()].contains(module)).cloned().collect()
        };
        let circles: BTreeSet<BTreeSet<String>> = self.files.keys().map(|module| circle(module)).collect();
        circles.into_iter().filter(|circle| circle.len() > 1).collect()
    }
}

/// The module of a file below `src`.
fn module_of(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" || path == "main" { String::new() } else { path.replace('/', "::") }
}

fn parent(module: &str) -> String {
    module.rsplit_once("::").map_or("", |(parent, _)| parent).to_owned()
}

fn joined(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn words(code: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = code.as_bytes();
    (0..bytes.len()).filter(move |at| is_word(bytes[*at]) && (*at == 0 || !is_word(bytes[at - 1])))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The word at the beginning of `code`, and what is behind it.
fn word(code: &str) -> (&str, &str) {
    code.split_at(code.bytes().take_while(|byte| is_word(*byte)).count())
}

/// Whether `code` begins with the declaration of a module of this name.
fn is_mod(code: &str, name: &str) -> bool {
    let Some(rest) = code.strip_prefix("mod ") else { return false };
    let (declared, rest) = word(rest);
    declared == name && rest.starts_with(';')
}

/// The code without items under `#[cfg(…test…)]`.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(") {
        let end = rest[at..].find(")]").map_or(rest.len(), |end| at + end + 2);
        kept.push_str(&rest[..at]);
        let attribute = &rest[at..end];
        let is_test =
            words(attribute).any(|at| word(&attribute[at..]).0 == "test") && !attribute.contains("not(test");
        rest = if is_test { &rest[end + item_length(&rest[end..])..] } else { &rest[end..] };
    }
    kept + rest
}

/// Length of the item at the beginning of `code`: up to its semicolon, or the brace that ends it.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_in(name: &str, files: &[(&str, &str)], exceptions: &[(&str, usize)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, code)| Source::new(&format!("{name}/src/{path}"), code)).collect();
        check_with(&sources, exceptions).into_iter().map(|finding| finding.what).collect()
    }

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        findings_in("engines/x", files, &[])
    }

    const CIRCLE_OF_THREE: [(&str, &str); 4] = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "use crate::b::B;\n"),
        ("b/mod.rs", "fn f() { crate::c::C::new() }\n"),
        ("c.rs", "use super::{a::A as B, b};\n"),
    ];

    #[test]
    fn a_circle_of_three_files_is_found() {
        let what =
            "3 files depend on each other: engines/x/src/a.rs, engines/x/src/b/mod.rs, engines/x/src/c.rs";
        assert_eq!(findings(&CIRCLE_OF_THREE), [what]);
        assert!(findings(&CIRCLE_OF_THREE[..3]).is_empty());
    }

    #[test]
    fn an_exception_allows_a_larger_circle_and_no_more_files_than_it_has() {
        let found = |exceptions: &[(&str, usize)]| findings_in("base/x", &CIRCLE_OF_THREE, exceptions);
        let circle = "3 files depend on each other: base/x/src/a.rs, base/x/src/b/mod.rs, base/x/src/c.rs";
        assert_eq!(found(&[]), [circle]);
        assert!(found(&[("base/x/src/b/mod.rs", 3)]).is_empty());
        assert_eq!(
            found(&[("base/x/src/a.rs", 4)]),
            ["the exception for base/x/src/a.rs allows a circle of 4 files, which has 3"]
        );
        assert_eq!(
            found(&[("base/x/src/lib.rs", 3)]),
            [circle, "the exception for base/x/src/lib.rs allows a circle of 3 files, which has 0"]
        );
        let two = [("lib.rs", "mod a;\nmod b;\n"), ("a.rs", "use crate::b;\n"), ("b.rs", "use crate::a;\n")];
        assert!(findings_in("base/x", &two, &[]).is_empty());
        assert_eq!(
            findings_in("base/x", &two, &[("base/x/src/a.rs", 2)]),
            ["the exception for base/x/src/a.rs allows a circle of 2 files, which has 2"]
        );
    }

    #[test]
    fn every_crate_is_checked_for_itself() {
        let sources = [
            Source::new("base/x/src/lib.rs", "mod a;\nmod b;\nuse crate::a::A;\n"),
            Source::new("base/x/src/a.rs", "use crate::b::B;\n"),
            Source::new("base/x/src/b.rs", "fn b() {}\n"),
            Source::new("base/y/src/lib.rs", "mod b;\n"),
            Source::new("base/y/src/b.rs", "use crate::C;\n"),
        ];
        assert!(check_with(&sources, &[]).is_empty(), "{:?}", check_with(&sources, &[]));
    }

    #[test]
    fn reexports_and_paths_of_children_count_in_engines_only() {
        let files = [
            ("lib.rs", "mod p;\n"),
            ("p/mod.rs", "mod a;\nmod b;\npub(crate) use a::A;\nuse b::B;\nstruct Shared;\n"),
            ("p/a.rs", "use super::Shared;\n"),
            ("p/b.rs", "use super::Shared;\n"),
        ];
        assert_eq!(findings_in("engines/x", &files, &[]).len(), 1);
        assert!(findings_in("fleet/x", &files, &[]).is_empty());
        let by_self = [
            files[0],
            ("p/mod.rs", "mod a;\nmod b;\nuse self::{a::A, b::B};\nstruct Shared;\n"),
            files[2],
            files[3],
        ];
        assert_eq!(findings_in("fleet/x", &by_self, &[]).len(), 1);
    }

    #[test]
    fn a_name_that_is_exported_again_leads_to_where_it_is_defined() {
        let lib = "mod a;\nmod f;\npub use a::A;\npub(crate) use f::{G};\n";
        let in_a_circle = [
            ("lib.rs", lib),
            ("a.rs", "use crate::f::{F, g::{G, self}};\n"),
            ("f/mod.rs", "mod g;\npub(crate) use g::G;\nfn f() { g::G::new() }\n"),
            ("f/g.rs", "use crate::A;\nuse super::F as X;\n"),
        ];
        assert!(findings(&in_a_circle)[0].starts_with("3 files"), "{:?}", findings(&in_a_circle));
        let one_way = [
            ("lib.rs", lib),
            ("a.rs", "use crate::G;\n"),
            ("f/mod.rs", "mod g;\nmod h;\npub(crate) use g::G;\npub(crate) use h::H;\n"),
            ("f/g.rs", "use super::H;\n"),
            ("f/h.rs", "fn h() {}"),
        ];
        assert!(findings(&one_way).is_empty(), "{:?}", findings(&one_way));
    }

    #[test]
    fn tests_and_comments_are_left_out() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(all(test, not(loom)))]\nmod tests;\n"),
            ("a.rs", "// crate::c\n#[cfg(test)]\nmod tests { use crate::b::B; }\nuse crate::b::B;"),
            (
                "b.rs",
                "#[cfg(test)]\npub(crate) use crate::tests::T;\n#[cfg(test)]\nmod tests { use crate::a; }",
            ),
            ("tests/mod.rs", "mod t;\nuse crate::a::A;"),
            ("tests/t.rs", "use super::super::a::A; use crate::b;"),
        ];
        assert!(findings(&files).is_empty(), "{:?}", findings(&files));
    }
}
