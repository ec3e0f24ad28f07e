//! The list of parts of a program (a software bill of materials), in the form of CycloneDX 1.5.
//!
//! It says the same of equal programs: it has no serial number, and no time unless `SOURCE_DATE_EPOCH` is set.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::kit::Kit;
use super::linked::{Crate, Linked};
use crate::workspace;

/// A program, and what it is linked with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'a> {
    pub(super) name: &'a str,
    pub(super) form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With the C library of its system.
    Dynamic,
    /// With a C library of its own.
    Static,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Parts that are no crates of the registry.
#[derive(Debug)]
struct Toolchain {
    /// The version of Rust.
    rust: String,
    /// The version of the C library, where it is linked.
    c_library: Option<String>,
}

/// The name of the file.
pub(super) fn name(program: &str) -> String {
    format!("{program}.cdx.json")
}

pub(super) fn write(kit: &Kit, program: Program<'_>, linked: &Linked) -> Result<String, String> {
    let lock = std::fs::read_to_string(kit.root.join("Cargo.lock")).map_err(|error| error.to_string())?;
    let lock: Lock = toml::from_str(&lock).map_err(|error| format!("Cargo.lock: {error}"))?;
    let sums = lock.package.into_iter().filter_map(|each| Some(((each.name, each.version), each.checksum?)));
    let time = match &kit.given_epoch {
        Some(epoch) => Some(kit.shell(&kit.root, &format!("date -u -d @{epoch} +%FT%TZ"))?),
        None => None,
    };
    let rust = workspace::output(&kit.root, &kit.machine.rustc(), &["--version"])?;
    let rust = rust.split_whitespace().nth(1).ok_or("rustc has no version")?.to_owned();
    let c_library = match program.form {
        Form::Dynamic => None,
        Form::Static => Some(kit.shell(&kit.root, "getconf GNU_LIBC_VERSION")?.replace("glibc ", "")),
    };
    let toolchain = Toolchain { rust, c_library };
    let bom = compose(program.name, &kit.version, linked, &sums.collect(), &toolchain, time);
    Ok(format!("{bom:#}\n"))
}

/// Where a crate of the registry is, as package URL.
fn purl(each: &Crate) -> String {
    format!("pkg:cargo/{}@{}", each.name, each.version.replace('+', "%2B"))
}

fn compose(
    program: &str,
    version: &str,
    linked: &Linked,
    sums: &BTreeMap<(String, String), String>,
    toolchain: &Toolchain,
    time: Option<String>,
) -> Value {
    let places: BTreeMap<&str, String> =
        linked.crates.iter().map(|each| (each.id.as_str(), purl(each))).collect();
    let own = format!("pkg:generic/{program}@{version}");
    let mut components: Vec<Value> = linked.crates.iter().map(|each| component(each, sums)).collect();
    let mut uses: Vec<Value> = linked
        .crates
        .iter()
        .map(|each| {
            let used = linked.uses.get(&each.id).into_iter().flatten();
            let used: Vec<&String> = used.filter_map(|id| places.get(id.as_str())).collect();
            json!({ "ref": purl(each), "dependsOn": used })
        })
        .collect();
    let mut direct: Vec<String> =
        linked.direct.iter().filter_map(|id| places.get(id.as_str()).cloned()).collect();
    let rust = [("rust-std", &toolchain.rust, "MIT OR Apache-2.0")];
    let c_library = toolchain.c_library.iter().map(|version| ("glibc", version, "LGPL-2.1-or-later"));
    for (name, version, license) in rust.into_iter().chain(c_library) {
        let place = format!("pkg:generic/{name}@{version}");
        components.push(json!({
            "type": "library", "bom-ref": place, "name": name, "version": version, "purl": place,
            "licenses": [{ "expression": license }],
        }));
        uses.push(json!({ "ref": place, "dependsOn": [] }));
        direct.push(place);
    }
    uses.insert(0, json!({ "ref": own, "dependsOn": direct }));
    let mut metadata = json!({
        "component": {
            "type": "application", "bom-ref": own, "name": program, "version": version, "purl": own,
            "licenses": [{ "expression": "Apache-2.0" }],
        },
        "tools": { "components": [{ "type": "application", "name": "cargo xtask package", "version": version }] },
    });
    if let Some(time) = time {
        metadata["timestamp"] = json!(time);
    }
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": uses,
    })
}

fn component(each: &Crate, sums: &BTreeMap<(String, String), String>) -> Value {
    let place = purl(each);
    let mut component = json!({
        "type": "library", "bom-ref": place, "name": each.name, "version": each.version, "purl": place,
        "scope": "required",
    });
    if let Some(license) = &each.license {
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(sum) = sums.get(&(each.name.clone(), each.version.clone())) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    if let Some(repository) = &each.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn bom(time: Option<&str>, c_library: Option<&str>) -> Value {
        let each = |name: &str, version: &str, license: Option<&str>| Crate {
            id: format!("id of {name}"),
            name: name.into(),
            version: version.into(),
            license: license.map(Into::into),
            repository: license.map(|_| format!("https://example.org/{name}")),
            manifest_path: "/registry/Cargo.toml".into(),
        };
        let linked = Linked {
            crates: vec![each("a", "1.0.0", Some("MIT/Apache-2.0")), each("b", "2.0.0+x", None)],
            direct: BTreeSet::from(["id of a".to_owned()]),
            uses: BTreeMap::from([("id of a".to_owned(), BTreeSet::from(["id of b".to_owned()]))]),
        };
        let sums = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "00ff".to_owned())]);
        let toolchain = Toolchain { rust: "1.95.0".into(), c_library: c_library.map(Into::into) };
        compose("guira", "0.1.0", &linked, &sums, &toolchain, time.map(Into::into))
    }

    #[test]
    fn crates_have_places_licences_sums_and_uses() {
        let bom = bom(None, None);
        assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        assert_eq!(bom["metadata"]["component"]["purl"], "pkg:generic/guira@0.1.0");
        assert!(bom["metadata"].get("timestamp").is_none() && bom.get("serialNumber").is_none());
        let [a, b, rust] = bom["components"].as_array().unwrap().as_slice() else { panic!("{bom:#}") };
        assert_eq!(a["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(a["licenses"], json!([{ "expression": "MIT OR Apache-2.0" }]));
        assert_eq!(a["hashes"], json!([{ "alg": "SHA-256", "content": "00ff" }]));
        assert_eq!(b["purl"], "pkg:cargo/b@2.0.0%2Bx");
        assert!(b.get("licenses").is_none() && b.get("hashes").is_none());
        assert_eq!(rust["name"], "rust-std");
        assert_eq!(
            bom["dependencies"],
            json!([
                { "ref": "pkg:generic/guira@0.1.0", "dependsOn": ["pkg:cargo/a@1.0.0", "pkg:generic/rust-std@1.95.0"] },
                { "ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0%2Bx"] },
                { "ref": "pkg:cargo/b@2.0.0%2Bx", "dependsOn": [] },
                { "ref": "pkg:generic/rust-std@1.95.0", "dependsOn": [] },
            ])
        );
    }

    #[test]
    fn a_static_program_has_a_c_library_and_a_time_is_there_if_it_is_given() {
        let bom = bom(Some("2026-11-30T00:00:00Z"), Some("2.36"));
        assert_eq!(bom["metadata"]["timestamp"], "2026-11-30T00:00:00Z");
        let parts = bom["components"].as_array().unwrap();
        assert_eq!(parts.last().unwrap()["purl"], "pkg:generic/glibc@2.36");
    }
}
