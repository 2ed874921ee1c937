//! [`Role`]: whose keys a guard's filters have.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whose keys a guard's filters have.
pub(super) enum Role {
    /// Those of its own store, all of them.
    Store,
    /// Those that were reported of somebody else's store.
    Sidecar {
        /// Whether all of them were. Until then "absent" means nothing.
        built: AtomicBool,
    },
}

impl Role {
    pub(super) fn is_sidecar(&self) -> bool {
        matches!(self, Role::Sidecar { .. })
    }

    /// Whether the filters may answer "absent".
    #[inline(always)]
    pub(super) fn is_built(&self) -> bool {
        match self {
            Role::Store => true,
            Role::Sidecar { built } => built.load(Ordering::Acquire),
        }
    }

    pub(super) fn set_built(&self) {
        if let Role::Sidecar { built } = self {
            built.store(true, Ordering::Release);
        }
    }
}
