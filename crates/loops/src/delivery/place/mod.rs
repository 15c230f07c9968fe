//! Where values lie: a file, a folder with a file for each, or a program that is handed them.

mod file;
mod folder;
mod owner;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use mesh_sdk::Secret;

use super::decide::Found;
use super::format::{Format, FormatFault, Values};

pub use owner::{Owner, OwnerFault};

/// Who may read what is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The mode of files; folders get the right to enter for whoever may read.
    pub mode: u32,
    /// Whose they are; `None`: whose process writes them.
    pub user: Option<u32>,
    /// Their group; `None`: of the process that writes them.
    pub group: Option<u32>,
}

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// One file.
    File(PathBuf, Format),
    /// A folder with one file for each value, holding its bytes and nothing else.
    Folder(PathBuf),
}

/// What is to lie at a place: made once, compared and written as often as it takes.
pub struct Content(Vec<(PathBuf, Secret)>);

/// Why a place could not be looked at or written. What lay there before lies there still.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {why}", .path.display())]
pub struct PlaceFault {
    what: &'static str,
    path: PathBuf,
    why: String,
}

impl PlaceFault {
    fn of(what: &'static str, path: &Path, error: &io::Error) -> Self {
        let help = match error.kind() {
            io::ErrorKind::PermissionDenied => "; let Meshkeeper's user write in that folder",
            io::ErrorKind::NotFound => "; make the folder that it should lie in",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room",
            _ => "",
        };
        Self {
            what,
            path: path.to_owned(),
            why: format!("{error}{help}"),
        }
    }
}

impl Content {
    /// For a program's standard input: JSON.
    pub fn for_program(values: &Values) -> Result<Self, FormatFault> {
        Ok(Self(vec![(PathBuf::new(), Format::Json.write(values)?)]))
    }
    /// What a program is handed.
    pub fn input(&self) -> Option<&Secret> {
        self.0.first().map(|(_, bytes)| bytes)
    }
    #[cfg(test)]
    pub(super) fn texts(&self) -> Vec<String> {
        let texts = self.0.iter().filter_map(|(_, bytes)| bytes.expose_str());
        texts.map(str::to_owned).collect()
    }
}

impl Place {
    /// What should lie there.
    pub fn content(&self, values: &Values) -> Result<Content, FormatFault> {
        match self {
            Place::File(path, format) => Ok(Content(vec![(path.clone(), format.write(values)?)])),
            Place::Folder(folder) => {
                let files = values.iter();
                let files = files.map(|(name, value)| (folder.join(name), value.clone()));
                Ok(Content(files.collect()))
            }
        }
    }
    /// Compares. Reads only.
    pub fn look(&self, content: &Content, access: &Access) -> Found {
        let looked = match self {
            Place::File(..) => file::look_all(&content.0, access),
            Place::Folder(folder) => folder::look(folder, &content.0, access),
        };
        looked.unwrap_or_else(|fault| Found::Unknown(fault.to_string()))
    }
    /// Writes what differs: each file whole and on the disk before it takes its name.
    pub fn write(&self, content: &Content, access: &Access) -> Result<(), PlaceFault> {
        if let Place::Folder(folder) = self {
            folder::make(folder, access)?;
        }
        for (path, bytes) in &content.0 {
            if file::look(path, bytes, access)? != Found::Same {
                file::write(path, bytes, access)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path, Format::Env(_)) => write!(f, "env_file {}", path.display()),
            Place::File(path, Format::Json) => write!(f, "json_file {}", path.display()),
            Place::Folder(path) => write!(f, "folder {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What lies there is compared and repaired, whole or not at all.
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::super::format::Reader;
    use super::*;

    const ACCESS: Access = Access {
        mode: 0o600,
        user: None,
        group: None,
    };

    fn values(password: &str) -> Values {
        Values::from([("CACHE_PASSWORD".to_owned(), Secret::from(password))])
    }
    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("metadata").mode() & 0o7777
    }

    #[test]
    fn a_file_is_written_compared_and_repaired_and_again_changes_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("web.env");
        let place = Place::File(path.clone(), Format::Env(Reader::ALL.to_vec()));
        let content = place.content(&values("kd83")).expect("content");
        assert_eq!(place.look(&content, &ACCESS), Found::Absent);
        place.write(&content, &ACCESS).expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"CACHE_PASSWORD=kd83\n");
        assert_eq!(
            (place.look(&content, &ACCESS), mode(&path)),
            (Found::Same, 0o600)
        );
        let inode = fs::metadata(&path).expect("metadata").ino();
        place.write(&content, &ACCESS).expect("write");
        assert_eq!(
            fs::metadata(&path).expect("metadata").ino(),
            inode,
            "again changes nothing"
        );

        fs::write(&path, "CACHE_PASSWORD=other\n").expect("change");
        assert_eq!(place.look(&content, &ACCESS), Found::Other);
        place.write(&content, &ACCESS).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("mode");
        assert_eq!(place.look(&content, &ACCESS), Found::Loose);
        place.write(&content, &ACCESS).expect("write");
        assert_eq!(
            (place.look(&content, &ACCESS), mode(&path)),
            (Found::Same, 0o600)
        );
        let names: Vec<_> = fs::read_dir(folder.path()).expect("list").collect();
        assert_eq!(names.len(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_a_killed_writer_left_behind_is_no_hindrance() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("web.json");
        fs::write(folder.path().join(".web.json.mesh-new"), "{half").expect("left behind");
        let place = Place::File(path.clone(), Format::Json);
        let content = place.content(&values("kd83")).expect("content");
        place.write(&content, &ACCESS).expect("write");
        assert_eq!(place.look(&content, &ACCESS), Found::Same);
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_is_left() {
        let folder = tempfile::tempdir().expect("folder");
        let (path, other) = (folder.path().join("web.env"), folder.path().join("other"));
        fs::write(&other, "mine").expect("other");
        symlink(&other, &path).expect("link");
        let place = Place::File(path.clone(), Format::Env(Reader::ALL.to_vec()));
        let content = place.content(&values("kd83")).expect("content");
        assert_eq!(place.look(&content, &ACCESS), Found::Other);
        place.write(&content, &ACCESS).expect("write");
        assert_eq!(place.look(&content, &ACCESS), Found::Same);
        assert_eq!(fs::read(&other).expect("read"), b"mine");
    }

    #[test]
    fn a_folder_holds_each_value_as_it_is_and_strangers_files_are_left() {
        let folder = tempfile::tempdir().expect("folder");
        let place = Place::Folder(folder.path().join("web"));
        let mut values = values("p@ss \n'\"");
        values.insert("CACHE_USER".to_owned(), Secret::from("web"));
        let content = place.content(&values).expect("content");
        assert_eq!(place.look(&content, &ACCESS), Found::Absent);
        place.write(&content, &ACCESS).expect("write");
        let own = folder.path().join("web");
        assert_eq!(mode(&own), 0o700);
        assert_eq!(
            fs::read(own.join("CACHE_PASSWORD")).expect("read"),
            b"p@ss \n'\""
        );
        fs::write(own.join("stranger"), "x").expect("stranger");
        assert_eq!(place.look(&content, &ACCESS), Found::Same);
        fs::remove_file(own.join("CACHE_USER")).expect("remove");
        assert_eq!(place.look(&content, &ACCESS), Found::Other);
        place.write(&content, &ACCESS).expect("write");
        assert_eq!(place.look(&content, &ACCESS), Found::Same);
        assert_eq!(fs::read(own.join("stranger")).expect("read"), b"x");
    }

    #[test]
    fn h7_what_cannot_be_read_is_unknown_and_the_message_names_the_place() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("web.env");
        fs::create_dir(&path).expect("a folder in its place");
        let place = Place::File(path.clone(), Format::Json);
        let content = place.content(&values("kd83")).expect("content");
        assert!(
            matches!(place.look(&content, &ACCESS), Found::Unknown(why) if why.contains("web.env"))
        );
        let missing = Place::File(folder.path().join("no/web.env"), Format::Json);
        let content = missing.content(&values("kd83")).expect("content");
        let fault = missing
            .write(&content, &ACCESS)
            .expect_err("no folder")
            .to_string();
        assert!(
            fault.contains("no/") && fault.contains("make the folder"),
            "{fault}"
        );
        assert!(!fault.contains("kd83"));
    }
}
