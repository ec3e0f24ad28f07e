//! The result of a replay.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    pub name: String,
    pub delivered: u64,
    /// Deletes that servers have refused as invalid, and the reply to the first of them.
    pub refused: Remarks,
    /// Complete lines that are no deletes, and the fault of the first of them.
    pub unreadable: Remarks,
    pub end: FileEnd,
    /// Deletes that are left, by server.
    pub left: Vec<Left>,
    pub error: Option<String>,
    pub fate: FileFate,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    pub count: u64,
    pub first: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileEnd {
    #[default]
    Whole,
    /// Within a line, which was skipped.
    Torn,
}

/// Whether a file was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFate {
    #[default]
    Kept,
    /// The file has no deletes left.
    Removed,
}

/// The deletes of a file that are left for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub server: String,
    pub count: u64,
    pub reason: LeftReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftReason {
    /// The server does not accept them now.
    Down(String),
    /// The configuration has neither the server nor a pool of that name.
    Homeless,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    pub files: u64,
    pub removed: u64,
    pub delivered: u64,
    pub refused: u64,
    pub unreadable: u64,
    pub left: u64,
    /// Files that another process writes to or replays, or that mcrouter may still write to.
    pub busy: u64,
    pub errors: u64,
}

impl Remarks {
    pub(crate) fn add(&mut self, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = text();
        }
        self.count += 1;
    }
}

impl ReplayReport {
    pub(crate) fn add(&mut self, file: &FileReport) {
        self.files += 1;
        self.removed += u64::from(file.fate == FileFate::Removed);
        self.delivered += file.delivered;
        self.refused += file.refused.count;
        self.unreadable += file.unreadable.count;
        self.left += file.left.iter().map(|left| left.count).sum::<u64>();
        self.errors += u64::from(file.error.is_some());
    }

    /// Whether all deletes were delivered.
    pub fn is_complete(&self) -> bool {
        self.left == 0 && self.busy == 0 && self.errors == 0
    }
}
