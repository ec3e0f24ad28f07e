//! Locks, with the faces of `guira_sync::lock`: they wait in the scheduler. Inside are std's, which are never contended,
//! since a task that finds one locked waits first.

use crate::scheduler::{self, Woken};
use crate::wait::Waiters;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    waiters: Waiters,
    inner: std::sync::Mutex<T>,
}

/// Unlocks its mutex when it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'m, T: ?Sized> {
    /// Taken when it is dropped, before others are woken.
    inner: Option<std::sync::MutexGuard<'m, T>>,
    mutex: &'m Mutex<T>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Mutex { waiters: Waiters::new(), inner: std::sync::Mutex::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other task holds the lock, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        scheduler::point();
        loop {
            if let Some(guard) = self.take() {
                return guard;
            }
            self.waiters.enter();
            self.waiters.wait(None);
        }
    }

    /// Takes the lock unless another task holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        scheduler::point();
        self.take()
    }

    fn take(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { inner: Some(inner), mutex: self })
    }

    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is locked")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is locked")
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        self.mutex.waiters.wake_one();
    }
}

/// Waits for a change of what a [`Mutex`] protects.
#[derive(Debug, Default)]
pub struct Condvar(Waiters);

impl Condvar {
    /// No task waits.
    pub const fn new() -> Self {
        Condvar(Waiters::new())
    }

    /// Unlocks, waits for a notification, and locks again.
    pub fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.wait_at_most(guard, None).0
    }

    /// The same, at most for `limit`.
    pub fn wait_timeout<'m, T>(&self, guard: MutexGuard<'m, T>, limit: Duration) -> MutexGuard<'m, T> {
        self.wait_at_most(guard, Some(limit)).0
    }

    /// Waits until `is_waiting` returns false, at most for `limit`.
    pub fn wait_timeout_while<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
        limit: Duration,
        mut is_waiting: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'m, T> {
        let end = scheduler::now().saturating_add(limit);
        while is_waiting(&mut guard) {
            let left = end.saturating_sub(scheduler::now());
            if left.is_zero() {
                break;
            }
            guard = self.wait_at_most(guard, Some(left)).0;
        }
        guard
    }

    fn wait_at_most<'m, T>(
        &self,
        guard: MutexGuard<'m, T>,
        limit: Option<Duration>,
    ) -> (MutexGuard<'m, T>, Woken) {
        let mutex = guard.mutex;
        self.0.enter();
        drop(guard);
        let woken = self.0.wait(limit);
        (mutex.lock(), woken)
    }

    pub fn notify_one(&self) {
        self.0.wake_one();
        scheduler::point();
    }

    pub fn notify_all(&self) {
        self.0.wake_all();
        scheduler::point();
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized> {
    waiters: Waiters,
    inner: std::sync::RwLock<T>,
}

macro_rules! guard {
    ($name:ident, $inner:ident) => {
        /// Unlocks when it is dropped.
        #[derive(Debug)]
        pub struct $name<'l, T: ?Sized> {
            inner: Option<std::sync::$inner<'l, T>>,
            lock: &'l RwLock<T>,
        }

        impl<T: ?Sized> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                self.inner.as_ref().expect("it is locked")
            }
        }

        impl<T: ?Sized> Drop for $name<'_, T> {
            fn drop(&mut self) {
                self.inner = None;
                self.lock.waiters.wake_all();
            }
        }
    };
}

guard!(RwLockReadGuard, RwLockReadGuard);
guard!(RwLockWriteGuard, RwLockWriteGuard);

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is locked")
    }
}

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        RwLock { waiters: Waiters::new(), inner: std::sync::RwLock::new(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds the lock, and takes it with other readers.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        scheduler::point();
        loop {
            match self.inner.try_read() {
                Ok(inner) => return RwLockReadGuard { inner: Some(inner), lock: self },
                Err(TryLockError::Poisoned(poisoned)) => {
                    return RwLockReadGuard { inner: Some(poisoned.into_inner()), lock: self };
                }
                Err(TryLockError::WouldBlock) => {}
            }
            self.waiters.enter();
            self.waiters.wait(None);
        }
    }

    /// Waits until no other task holds the lock, and takes it alone.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        scheduler::point();
        loop {
            match self.inner.try_write() {
                Ok(inner) => return RwLockWriteGuard { inner: Some(inner), lock: self },
                Err(TryLockError::Poisoned(poisoned)) => {
                    return RwLockWriteGuard { inner: Some(poisoned.into_inner()), lock: self };
                }
                Err(TryLockError::WouldBlock) => {}
            }
            self.waiters.enter();
            self.waiters.wait(None);
        }
    }
}

/// A value that is set once.
#[derive(Debug)]
pub struct OnceLock<T> {
    waiters: Waiters,
    making: Mutex<()>,
    inner: std::sync::OnceLock<T>,
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    /// Not set yet.
    pub const fn new() -> Self {
        OnceLock { waiters: Waiters::new(), making: Mutex::new(()), inner: std::sync::OnceLock::new() }
    }

    /// The value, if it is set.
    pub fn get(&self) -> Option<&T> {
        self.inner.get()
    }

    /// Sets the value.
    ///
    /// # Errors
    /// The given value if one is set already.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.inner.set(value)?;
        self.waiters.wake_all();
        Ok(())
    }

    /// The value, which `make` makes if it is not set.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.inner.get().is_none() {
            let _making = self.making.lock();
            if self.inner.get().is_none() {
                let value = make();
                let _ = self.set(value);
            }
        }
        self.inner.get().expect("it is set")
    }

    /// Waits until the value is set.
    pub fn wait(&self) -> &T {
        loop {
            if let Some(value) = self.inner.get() {
                return value;
            }
            self.waiters.enter();
            self.waiters.wait(None);
        }
    }

    pub fn into_inner(self) -> Option<T> {
        self.inner.into_inner()
    }
}
