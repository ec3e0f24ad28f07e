//! An image for containers, without a daemon: one layer with the static binary, in the form that `docker load` and `podman load` take.
//!
//! The archive is a layout of the Open Container Initiative (`oci-layout`, `index.json`, blobs by their digests) and has docker's
//! `manifest.json` beside it, for versions of docker that read no other. How the image is started is read from the Dockerfile.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::kit::Kit;
use super::licenses;
use super::machine::GUIRA;
use super::sbom::{Form, Program};
use super::tree::Tree;

const DOCKERFILE: &str = "deploy/docker/Dockerfile";

/// The user of memcached's image, so that volumes and security contexts fit.
const USER: &str = "memcache:x:11211:";

/// Fills `image` with what lies in the image.
pub(super) fn fill(kit: &Kit) -> Result<(), String> {
    let tree = Tree::new(kit.out.join("image"))?;
    tree.copy(&kit.standalone.join(GUIRA), "usr/local/bin/guira", 0o755)?;
    tree.link("usr/local/bin/memcached", "guira")?;
    tree.write(
        "etc/passwd",
        0o644,
        format!("root:x:0:0:root:/:/sbin/nologin\n{USER}11211::/:/sbin/nologin\n"),
    )?;
    tree.write("etc/group", 0o644, format!("root:x:0:\n{USER}\n"))?;
    tree.copy(&kit.root.join("LICENSE"), "usr/share/doc/guira/LICENSE", 0o644)?;
    licenses::put(kit, &tree, Program { name: GUIRA, form: Form::Static }, "usr/share/doc/guira/")?;
    kit.strip(tree.folder(), "usr/local/bin/guira")
}

/// Writes `guira-image.tar`.
pub(super) fn make(kit: &Kit) -> Result<(), String> {
    fill(kit)?;
    let layout = Tree::new(kit.out.join("layout"))?;
    kit.shell(
        &kit.out,
        &format!("{} -C image -cf layer.tar . && {} -c layer.tar > layer.tar.gz", kit.tar(), kit.gzip()),
    )?;
    let plain = sum(kit, "layer.tar")?;
    let layer = Blob { digest: sum(kit, "layer.tar.gz")?, size: size(&kit.out.join("layer.tar.gz"))? };
    layout.copy(&kit.out.join("layer.tar.gz"), &layer.path(), 0o644)?;
    kit.shell(&kit.out, "rm layer.tar layer.tar.gz")?;
    let text = fs::read_to_string(kit.root.join(DOCKERFILE)).map_err(|error| error.to_string())?;
    let created = kit.shell(&kit.out, &format!("date -u -d @{} +%FT%TZ", kit.epoch))?;
    let config = json!({
        "architecture": kit.machine.debian(),
        "os": "linux",
        "created": created,
        "config": started(&text)?,
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{plain}")] },
        "history": [{ "created": created, "created_by": "cargo xtask package" }],
    });
    let config = blob(kit, &layout, &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
    });
    let manifest = blob(kit, &layout, &manifest)?;
    let name = format!("docker.io/library/guira:{}", kit.version);
    let mut entry = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    entry["annotations"] =
        json!({ "io.containerd.image.name": name, "org.opencontainers.image.ref.name": kit.version });
    layout.write("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    layout.write("index.json", 0o644, json!({ "schemaVersion": 2, "manifests": [entry] }).to_string())?;
    let docker = json!([{ "Config": config.path(), "RepoTags": [format!("guira:{}", kit.version)], "Layers": [layer.path()] }]);
    layout.write("manifest.json", 0o644, docker.to_string())?;
    kit.shell(&kit.out, &format!("{} -C layout -cf guira-image.tar .", kit.tar())).map(drop)
}

/// A file that is named by its digest.
struct Blob {
    digest: String,
    size: u64,
}

impl Blob {
    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({ "mediaType": kind, "digest": format!("sha256:{}", self.digest), "size": self.size })
    }
}

fn blob(kit: &Kit, layout: &Tree, value: &Value) -> Result<Blob, String> {
    let text = value.to_string();
    layout.write("blobs/sha256/unnamed", 0o644, &text)?;
    let folder = layout.folder().join("blobs/sha256");
    let digest = sum(kit, &folder.join("unnamed").to_string_lossy())?;
    let blob = Blob { digest, size: text.len() as u64 };
    fs::rename(folder.join("unnamed"), folder.join(&blob.digest)).map_err(|error| error.to_string())?;
    Ok(blob)
}

fn sum(kit: &Kit, file: &str) -> Result<String, String> {
    let line = kit.shell(&kit.out, &format!("sha256sum '{file}'"))?;
    line.split_whitespace().next().map(str::to_owned).ok_or(format!("{file}: no sum"))
}

fn size(path: &Path) -> Result<u64, String> {
    fs::metadata(path).map(|metadata| metadata.len()).map_err(|error| format!("{}: {error}", path.display()))
}

/// How the image is started, in the words of its configuration: what the last stage of a Dockerfile says.
fn started(dockerfile: &str) -> Result<Value, String> {
    let stage = dockerfile.rsplit_once("\nFROM ").ok_or("the Dockerfile has no last stage")?.1;
    let said = |name: &str| {
        let line = stage.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(str::trim).ok_or(format!("the last stage of the Dockerfile has no {name}"))
    };
    let list = |name: &str| -> Result<Value, String> {
        serde_json::from_str(said(name)?).map_err(|error| format!("{name} of the Dockerfile: {error}"))
    };
    let port = format!("{}/tcp", said("EXPOSE")?);
    Ok(json!({
        "User": said("USER")?,
        "ExposedPorts": { port: {} },
        "Env": [said("ENV")?],
        "Entrypoint": list("ENTRYPOINT")?,
        "Cmd": list("CMD")?,
        "StopSignal": said("STOPSIGNAL")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_started_as_the_dockerfile_says() {
        let text = "FROM a AS b\nUSER root\n\nFROM scratch\nENV PATH=/bin\nUSER 7:8\nEXPOSE 1\nSTOPSIGNAL SIGTERM\nENTRYPOINT [\"c\", \"d\"]\nCMD [\"e\"]\n";
        let started = started(text).expect("all is said");
        assert_eq!(started["User"], "7:8");
        assert_eq!(started["Entrypoint"], json!(["c", "d"]));
        assert_eq!(started["ExposedPorts"], json!({ "1/tcp": {} }));
        assert!(super::started(&text.replace("CMD", "RUN")).is_err_and(|error| error.contains("CMD")));
    }
}
