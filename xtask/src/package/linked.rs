//! The crates by others whose code is in a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::workspace;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Crate {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    /// `None` for normal, otherwise `dev` or `build`.
    kind: Option<String>,
}

/// The crates by others in a program.
#[derive(Debug)]
pub(super) struct Linked {
    /// Sorted by name and version.
    pub(super) crates: Vec<Crate>,
    /// The crates by others that the crates of Guira use themselves.
    pub(super) direct: BTreeSet<String>,
    /// Of each crate by others those that it uses.
    pub(super) uses: BTreeMap<String, BTreeSet<String>>,
}

/// The crates by others whose code is in a program: not those that only run while it is built.
pub(super) fn linked(root: &Path, program: &str, target: &str) -> Result<Linked, String> {
    let edges = ["tree", "--locked", "--package", program, "--edges", "normal,no-proc-macro"];
    let form = ["--target", target, "--prefix", "none", "--format", "{p}"];
    let tree = workspace::output(root, "cargo", &[&edges[..], &form[..]].concat())?;
    let all = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let text = workspace::output(root, "cargo", &all)?;
    let metadata =
        serde_json::from_str::<Metadata>(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let linked = select(metadata, &names(&tree), root);
    if linked.crates.is_empty() { Err("cargo names no crate that is linked".into()) } else { Ok(linked) }
}

fn select(metadata: Metadata, named: &BTreeSet<(String, String)>, root: &Path) -> Linked {
    let is_named = |each: &Crate| named.contains(&(each.name.clone(), each.version.clone()));
    let (own, mut crates): (Vec<Crate>, Vec<Crate>) =
        metadata.packages.into_iter().filter(is_named).partition(|each| each.manifest_path.starts_with(root));
    crates.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let is_linked = |id: &str| crates.iter().any(|each| each.id == id);
    let (mut direct, mut uses) = (BTreeSet::new(), BTreeMap::new());
    for Node { id, deps } in metadata.resolve.nodes {
        let is_normal = |edge: &Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let used: BTreeSet<String> = deps
            .into_iter()
            .filter(|edge| is_normal(edge) && is_linked(&edge.pkg))
            .map(|edge| edge.pkg)
            .collect();
        if own.iter().any(|each| each.id == id) {
            direct.extend(used);
        } else if is_linked(&id) {
            uses.insert(id, used);
        }
    }
    Linked { crates, direct, uses }
}

/// Names and versions, of lines such as `memchr v2.8.3 (*)`.
fn names(tree: &str) -> BTreeSet<(String, String)> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_read_from_cargos_tree() {
        let tree = "guira v0.1.0 (/x)\nmemchr v2.8.3\nring v0.17.14 (*)\n\ntoml v1.2.1+spec-1.1.0\n";
        let names = names(tree);
        let has = |name: &str, version: &str| names.contains(&(name.to_owned(), version.to_owned()));
        assert!(has("memchr", "2.8.3") && has("ring", "0.17.14") && has("toml", "1.2.1+spec-1.1.0"));
        assert_eq!(names.len(), 4);
    }

    #[test]
    fn uses_lead_from_guira_to_crates_by_others_and_only_to_linked_ones() {
        let package = |name: &str, place: &str| {
            format!(
                r#"{{"id":"{name}","name":"{name}","version":"1.0.0","manifest_path":"{place}/Cargo.toml"}}"#
            )
        };
        let packages = ["guira", "own"].map(|name| package(name, "/x")).join(",");
        let others = ["a", "b", "macros"].map(|name| package(name, "/registry")).join(",");
        let node = |id: &str, used: &str, kind: &str| {
            format!(r#"{{"id":"{id}","deps":[{{"pkg":"{used}","dep_kinds":[{{"kind":{kind}}}]}}]}}"#)
        };
        let nodes = [
            node("guira", "own", "null"),
            node("own", "a", "null"),
            node("a", "b", "null"),
            node("b", "macros", "null"),
            node("macros", "a", "null"),
        ];
        let text =
            format!(r#"{{"packages":[{packages},{others}],"resolve":{{"nodes":[{}]}}}}"#, nodes.join(","));
        let named = names("guira v1.0.0\nown v1.0.0\nb v1.0.0\na v1.0.0\n");
        let linked = select(serde_json::from_str(&text).unwrap(), &named, Path::new("/x"));
        let names: Vec<&str> = linked.crates.iter().map(|each| each.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(linked.direct, BTreeSet::from(["a".to_owned()]));
        assert_eq!(linked.uses["a"], BTreeSet::from(["b".to_owned()]));
        assert_eq!(linked.uses["b"], BTreeSet::new());
        let unused = text
            .replace(r#""pkg":"a","dep_kinds":[{"kind":null}]"#, r#""pkg":"a","dep_kinds":[{"kind":"dev"}]"#);
        let linked = select(serde_json::from_str(&unused).unwrap(), &named, Path::new("/x"));
        assert_eq!(linked.direct, BTreeSet::new(), "tests are not linked");
    }
}
