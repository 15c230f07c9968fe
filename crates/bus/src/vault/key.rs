//! The installation's key: one file, made once, and what is derived from it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{fs, io::Read};

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::VaultFault;
use zeroize::Zeroizing;

use crate::{files, mint};

/// The key's file in the data folder.
pub const KEY_FILE: &str = "installation.key";
/// Bytes in a key.
const LENGTH: usize = 32;

/// Where the installation's key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// [`KEY_FILE`] in the data folder, made when an installation begins.
    Folder,
    /// A file that somebody else keeps, such as a systemd credential. It is never made here.
    File(PathBuf),
}

impl KeySource {
    /// Where the key lies, for this data folder.
    pub fn path(&self, folder: &Path) -> PathBuf {
        match self {
            KeySource::Folder => folder.join(KEY_FILE),
            KeySource::File(path) => path.clone(),
        }
    }
    /// Whether a missing key may be made.
    pub(super) fn may_make(&self) -> bool {
        matches!(self, KeySource::Folder)
    }
}

/// The key, as what is derived from it. The key itself is not kept.
pub(super) struct Keys {
    root: Prk,
    id: [u8; 8],
    mark: Secret,
    digest: Secret,
}

/// So many bytes are wanted of a derivation.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    fn of(key: &[u8; LENGTH]) -> Result<Self, VaultFault> {
        let root = Salt::new(HKDF_SHA256, b"meshkeeper installation key").extract(key);
        let mut id = [0; 8];
        derive(&root, &[b"key id"], &mut id)?;
        let secret = |label: &[u8]| {
            let mut bytes = Zeroizing::new([0; LENGTH]);
            derive(&root, &[label], bytes.as_mut())?;
            Ok::<_, VaultFault>(Secret::new(bytes.as_slice()))
        };
        let (mark, digest) = (secret(b"marks")?, secret(b"digests")?);
        Ok(Self {
            id,
            mark,
            digest,
            root,
        })
    }
    /// Names the key, and tells nothing of it.
    pub(super) fn id(&self) -> &[u8; 8] {
        &self.id
    }
    /// The key of the marks on backends.
    pub(super) fn mark(&self) -> &Secret {
        &self.mark
    }
    /// The key of the digests in records.
    pub(super) fn digest(&self) -> &Secret {
        &self.digest
    }
    /// The key that seals one record.
    pub(super) fn of_record(&self, id: &str) -> Result<Zeroizing<[u8; LENGTH]>, VaultFault> {
        let mut key = Zeroizing::new([0; LENGTH]);
        derive(&self.root, &[b"secret ", id.as_bytes()], key.as_mut())?;
        Ok(key)
    }
}

fn derive(root: &Prk, info: &[&[u8]], out: &mut [u8]) -> Result<(), VaultFault> {
    root.expand(info, Bytes(out.len()))
        .and_then(|okm| okm.fill(out))
        .map_err(|_| VaultFault::Unusable("a key could not be derived".to_owned()))
}

/// Reads the key; `None` if there is no file. A file that is no key is an error, never a reason for
/// another one.
pub(super) fn read(path: &Path) -> Result<Option<Keys>, VaultFault> {
    let unusable =
        |why: String| VaultFault::Unusable(format!("the key file {} {why}", path.display()));
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(format!("cannot be read: {error}"))),
    };
    let mut bytes = Zeroizing::new([0u8; LENGTH + 1]);
    let mut got = 0;
    while got < bytes.len() {
        match file.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unusable(format!("cannot be read: {error}"))),
        }
    }
    let key = bytes.first_chunk::<LENGTH>().filter(|_| got == LENGTH);
    let key = key.ok_or_else(|| unusable(format!("does not hold {LENGTH} bytes")))?;
    Keys::of(key).map(Some)
}

/// Makes the key, on the disk before this returns. The caller holds the store's write lock, has seen
/// that there is no key, and that nothing was ever sealed.
pub(super) fn make(path: &Path) -> Result<Keys, VaultFault> {
    let mut key = Zeroizing::new([0; LENGTH]);
    mint::os_random(key.as_mut())
        .map_err(|_| VaultFault::Unusable("the system gives no random bytes".to_owned()))?;
    files::write_whole(path, key.as_slice()).map_err(|e| file_fault(&e))?;
    Keys::of(&key)
}

fn file_fault(error: &io::Error) -> VaultFault {
    if files::is_full(error) {
        VaultFault::Full(error.to_string())
    } else {
        VaultFault::Unusable(error.to_string())
    }
}
