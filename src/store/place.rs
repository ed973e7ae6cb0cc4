//! Where plans are kept: the one place that knows which kind of database a configuration names.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::database_drivers::{
    Database, DatabaseError, DatabasePlace, ServerAddress, examine, listen,
};
use super::sql_statements::Tables;
use super::{PUT_BACK, Result, Store, StoreError, copied_plans};
use crate::config::{Environment, StoreConfig};
use crate::plan::Time;
use crate::wire::Problem;

/// What was found out about a store: what is there, or what is wrong with it.
pub type StoreFinding = Result<String, Problem>;

/// Where the plans are, and how to get there.
#[derive(Clone, Debug)]
pub struct StorePlace {
    file: PathBuf,
    server: Option<Arc<ServerAddress>>,
}

impl StorePlace {
    /// Returns the place that is configured: a server, else the file.
    ///
    /// # Errors
    /// The address of the server cannot be used.
    pub fn configured(
        store: &StoreConfig,
        file: PathBuf,
        environment: &Environment,
    ) -> Result<Self> {
        let note = file.with_extension("server");
        let read = |url| ServerAddress::read(url, note, environment).map(Arc::new);
        let url = store.url.as_ref().map(|url| read(url.secret()));
        let server = url.transpose().map_err(StoreError::Address)?;
        Ok(Self { file, server })
    }

    /// Returns the file, if the plans are in one.
    pub fn file(&self) -> Option<&Path> {
        (!self.is_shared()).then_some(&self.file)
    }

    /// Returns whether processes on other machines may use the plans as well.
    pub fn is_shared(&self) -> bool {
        self.server.is_some()
    }

    /// Returns whether there is a database, where that can be known without opening it.
    ///
    /// # Errors
    /// There is none, and plans were in it.
    pub fn exists(&self) -> Result<bool> {
        match self.is_shared() {
            true => Ok(true),
            false => Store::exists(&self.file),
        }
    }

    /// Opens the plans, and makes the database if there is none.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open(&self, now: impl Fn() -> Time + Send + 'static) -> Result<Store> {
        match self.database(false) {
            Some(place) => Store::connect(place, &self.to_string(), now).await,
            None => Store::open(&self.file, now).await,
        }
    }

    /// Opens the plans only to read them: every change is refused.
    ///
    /// # Errors
    /// As [`Store::open`]; an older version wrote them.
    pub async fn open_to_read(&self, now: impl Fn() -> Time + Send + 'static) -> Result<Store> {
        Store::connect(self.place(true), &self.to_string(), now).await
    }

    /// Brings the tables to the format of this version. Returns the format before, 0 if there were none, and the one now.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn migrate(&self) -> Result<(i64, i64)> {
        let place = self.place(false);
        self.blocking(move || Tables::migrate_at(&place)).await
    }

    /// Lets a login of the server take the commands of these roles, and nothing else; an empty one stands for commands without
    /// a role.
    ///
    /// # Errors
    /// The plans are in a file, the server has no such login, or this one may not do so.
    pub async fn allow(&self, login: &str, roles: &[String]) -> Result<()> {
        let place = self.database(false).ok_or_else(no_relays)?;
        let (login, roles) = (login.to_owned(), roles.to_vec());
        self.blocking(move || {
            let mut database = Database::connect(&place)?;
            for role in &roles {
                database.query("SELECT relay_allow($1, $2)", &[&login, role])?;
            }
            Ok(())
        })
        .await
    }

    /// Copies every plan with its whole log and texts to another place that has none: all of it or, if this fails or is killed,
    /// nothing. Returns the rows of each table.
    ///
    /// # Errors
    /// There are plans in the other place, or one of the two cannot be used.
    pub async fn copy_to(&self, to: &Self, now: Time) -> Result<Vec<(&'static str, u64)>> {
        let (source, target) = (self.place(true), to.place(false));
        let from = source.clone();
        self.blocking(move || copied_plans::check(&from)).await?;
        // Makes what is missing there, and refuses what is not a store.
        drop(to.open(move || now).await?);
        to.blocking(move || copied_plans::copy(&source, &target))
            .await
    }

    /// Says what is there, and what is wrong with it; nothing if there is nothing yet.
    pub async fn examine(&self) -> Vec<StoreFinding> {
        let Some(server) = self.server.clone() else {
            let (file, place) = (self.file.clone(), self.place(true));
            let looked = tokio::task::spawn_blocking(move || examine_file(&file, &place));
            return looked.await.ok().flatten().into_iter().collect();
        };
        let looked = tokio::task::spawn_blocking(move || examine(&server));
        looked.await.unwrap_or_default()
    }

    /// Returns a counter that moves when relays have something new on the server, and every few seconds.
    ///
    /// # Errors
    /// The plans are in a file of one machine, or no thread can be started.
    pub fn bell(&self) -> Result<watch::Receiver<u64>> {
        let server = self.server.clone().ok_or_else(no_relays)?;
        let (bell, rung) = watch::channel(0);
        let thread = std::thread::Builder::new().name("bell".to_owned());
        let started = thread.spawn(move || listen(&server, &bell));
        let failed = |error| StoreError::unopened(&self.to_string(), error, None);
        started.map(|_| rung).map_err(failed)
    }

    pub(super) fn database(&self, read_only: bool) -> Option<DatabasePlace> {
        let server = self.server.clone()?;
        Some(DatabasePlace::Server(server, read_only))
    }

    fn place(&self, read_only: bool) -> DatabasePlace {
        let file = || match read_only {
            true => DatabasePlace::ReadOnly(self.file.clone()),
            false => DatabasePlace::File(self.file.clone()),
        };
        self.database(read_only).unwrap_or_else(file)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T> {
        let done = tokio::task::spawn_blocking(work).await;
        let done = done.map_err(|error| StoreError::Panicked(error.to_string()))?;
        done.map_err(|error| StoreError::unopened(&self.to_string(), &error, error.way_out()))
    }
}

/// Relays meet a daemon on a server.
pub(super) fn no_relays() -> StoreError {
    let what = "relays need plans on a PostgreSQL server, and none is named";
    StoreError::Address(what.to_owned())
}

fn examine_file(path: &Path, place: &DatabasePlace) -> Option<StoreFinding> {
    let size = match Store::size(path) {
        Ok(0) => return None,
        Ok(size) => size as f64 / (1024.0 * 1024.0),
        Err(error) => return Some(Err(Problem::new(error.to_string()).with_hint(PUT_BACK))),
    };
    let shown = path.display();
    let whole = Database::connect(place).and_then(|database| Tables::of(database).check_file());
    Some(match whole {
        Ok(()) => Ok(format!("{shown} has {size:.1} MiB")),
        Err(error) => Err(error.problem(format!("cannot use `{shown}`: {error}"))),
    })
}

/// The file, or host, port, database and user.
impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => server.fmt(f),
            None => self.file.display().fmt(f),
        }
    }
}
