//! A stretch of network between a program and the server, which fails as it is told.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often a connection on which nothing comes is looked at.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// What is wrong with the connections, those that come as well as those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They stay, and no byte comes through, in one direction or in both.
    Silent(Option<Way>),
    /// All bytes are late.
    Late(Duration),
    /// They are reset where something comes.
    Reset,
    /// One that executes a statement with this text is reset after so many bytes of it: more than there are let it through, but
    /// no answer.
    Within(&'static str, usize),
}

/// Listens on a port of its own, and passes on what comes. It ends when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    pub port: u16,
}

#[derive(Default)]
struct Shared {
    server: AtomicU16,
    fault: Mutex<Option<Fault>>,
    /// How often the fault was met; a connection that is silent meets it at each look.
    met: AtomicUsize,
    over: AtomicBool,
    /// The connections that were made, and how many of them pass nothing on any more.
    made: AtomicUsize,
    stranded: AtomicUsize,
}

/// A connection of a client with its one to the server.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// Which one that is.
    port: u16,
    number: usize,
    gone: AtomicBool,
}

impl Proxy {
    /// Makes one before the port of a server.
    pub fn before(server: u16) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), server)
    }

    /// Makes one that listens somewhere else.
    pub fn on(listener: TcpListener, server: u16) -> Self {
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server: server.into(),
            ..Shared::default()
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.over.load(SeqCst) {
                    return;
                }
                accepting.join(client.unwrap());
            }
        });
        Self { shared, port }
    }

    /// Leads to another server from now on. Connections that are there end.
    pub fn lead_to(&self, server: u16) {
        self.shared.server.store(server, SeqCst);
    }

    /// Begins a fault.
    pub fn fail(&self, fault: Fault) {
        self.shared.met.store(0, SeqCst);
        *self.shared.fault.lock().unwrap() = Some(fault);
    }

    /// Returns how often the fault was met: while bytes are withheld, again and again.
    pub fn met(&self) -> usize {
        self.shared.met.load(SeqCst)
    }

    /// Lets the connections that are there stay, and pass nothing on for ever; later ones work.
    pub fn strand(&self) {
        let made = self.shared.made.load(SeqCst);
        self.shared.stranded.store(made, SeqCst);
    }

    /// Ends the fault. What was withheld comes through.
    pub fn heal(&self) {
        *self.shared.fault.lock().unwrap() = None;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, SeqCst);
        // The one that listens looks at that when somebody comes.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn join(self: &Arc<Self>, client: TcpStream) {
        // A server that is gone refuses: the client sees its connection end.
        let port = self.server.load(SeqCst);
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
            return;
        };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(LOOK)).unwrap();
        }
        let pair = Arc::new(Pair {
            client,
            server,
            port,
            number: self.made.fetch_add(1, SeqCst),
            gone: AtomicBool::new(false),
        });
        for way in [Way::ToServer, Way::ToClient] {
            let (shared, pair) = (Arc::clone(self), Arc::clone(&pair));
            thread::spawn(move || {
                // An error means that an end of it is gone.
                let (Ok(()) | Err(_)) = shared.pass(&pair, way);
                pair.gone.store(true, SeqCst);
            });
        }
    }

    /// Passes bytes on until an end is gone. What was not read when a connection is closed makes the system reset it.
    fn pass(&self, pair: &Pair, way: Way) -> io::Result<()> {
        let (mut from, mut to) = match way {
            Way::ToServer => (&pair.client, &pair.server),
            Way::ToClient => (&pair.server, &pair.client),
        };
        let (mut bytes, mut said) = (vec![0; 16 * 1024], Vec::new());
        while !pair.gone.load(SeqCst) && !self.over.load(SeqCst) {
            if pair.port != self.server.load(SeqCst) {
                return Ok(());
            }
            let count = match from.peek(&mut bytes) {
                Ok(0) => return to.shutdown(Shutdown::Both),
                Ok(count) => count,
                Err(error)
                    if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if pair.number < self.stranded.load(SeqCst) {
                thread::sleep(LOOK);
                continue;
            }
            let fault = *self.fault.lock().unwrap();
            match fault {
                Some(Fault::Silent(only)) if only.is_none_or(|only| only == way) => {
                    self.met.fetch_add(1, SeqCst);
                    thread::sleep(LOOK);
                    continue;
                }
                Some(Fault::Late(late)) => {
                    self.met.fetch_add(1, SeqCst);
                    thread::sleep(late);
                }
                Some(Fault::Reset) => {
                    self.met.fetch_add(1, SeqCst);
                    return Ok(());
                }
                Some(Fault::Within(text, most))
                    if way == Way::ToServer && executes(text, &said, &bytes[..count]) =>
                {
                    to.write_all(&bytes[..count.min(most)])?;
                    self.met.fetch_add(1, SeqCst);
                    return Ok(());
                }
                _ => {}
            }
            from.read_exact(&mut bytes[..count])?;
            to.write_all(&bytes[..count])?;
            said.extend(&bytes[..count]);
        }
        Ok(())
    }
}

/// Returns whether a client that said something before executes a statement now: it gave it a name then, `s` and a number.
fn executes(statement: &str, said: &[u8], now: &[u8]) -> bool {
    let named = [b"\0", statement.as_bytes()].concat();
    let Some(end) = said.windows(named.len()).rposition(|part| part == named) else {
        return false;
    };
    let Some(begin) = said[..end].iter().rposition(|byte| *byte == b's') else {
        return false;
    };
    let bound = [b"\0", &said[begin..=end]].concat();
    now.windows(bound.len()).any(|part| part == bound)
}
