//! The live area of a terminal: rows below the lines that stay, drawn again several times a second while something is at work.
//! The cursor rests at the beginning of the area, so that everything from there on is erased without counting rows: it does
//! not matter that the terminal has broken them anew at another width, or that another program has written there. Whatever
//! is printed takes the area away first.

use std::collections::HashMap;
use std::io::{self, Write};
use std::mem;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::sleep;

use super::{App, Failure, Output, in_foreground, terminal_size};
use crate::plan::{CommandId, PlanId, Time};
use crate::view::{AgentSays, AtWork, Screen, WorkRow};
use crate::worker::AgentNow;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(100);

/// On a narrower terminal there is none.
const NARROWEST: usize = 30;

/// Agents whose output is read; further rows do not fit on a terminal.
const MOST_READ: usize = 40;

/// Whether the area stands on the terminal. There is one terminal, and a part of the process may complain at any moment.
static DRAWN: Mutex<bool> = Mutex::new(false);

/// Takes the area away, and keeps it away as long as the guard lives. It comes again with the next tick.
pub fn put_aside() -> MutexGuard<'static, bool> {
    let mut drawn = DRAWN.lock();
    if mem::take(&mut *drawn) && in_foreground() {
        // Whatever is printed next finds out that the terminal is gone.
        drop(io::stdout().write_all(b"\r\x1b[J"));
    }
    drawn
}

/// Draws an area again and again, as long as something is at work. Never resolves but by an error.
///
/// # Errors
/// The terminal is gone.
pub async fn draw(area: Option<&mut LiveArea>, app: &App) -> Result<(), Failure> {
    if let Some(area) = area {
        while area.draw_once(app)? {
            sleep(TICK).await;
        }
    }
    std::future::pending().await
}

/// The live area of a plan.
pub struct LiveArea {
    at_work: AtWork,
    /// The change of the plan that it shows.
    seq: i64,
    agents: HashMap<CommandId, AgentNow>,
    since: Time,
    step: usize,
}

impl LiveArea {
    /// Makes the area of a plan that is carried out from now on; `None` where it cannot be drawn.
    pub fn new(app: &App) -> Option<Self> {
        app.out.size()?;
        Some(Self {
            at_work: AtWork::default(),
            seq: 0,
            agents: HashMap::new(),
            since: app.clock.now(),
            step: 0,
        })
    }

    /// Reads what is at work, and what the agents do.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub async fn read(&mut self, app: &App, plan: &PlanId) -> Result<(), Failure> {
        let shown = self.seq;
        let read = app.read(plan, move |plan, seq| {
            (seq, (seq != shown).then(|| AtWork::of(plan)))
        });
        let (seq, at_work) = read.await?;
        if let Some(at_work) = at_work {
            (self.seq, self.at_work) = (seq, at_work);
            let commands = self.at_work.rows.iter().flat_map(|row| &row.command);
            let mut earlier = mem::take(&mut self.agents);
            for id in commands.take(MOST_READ) {
                let log = |kind| app.volumes.log(id, kind);
                let agent = earlier.remove(id);
                let agent = agent.unwrap_or_else(|| AgentNow::new(log("out"), log("err")));
                self.agents.insert(id.clone(), agent);
            }
        }
        self.agents.values_mut().for_each(AgentNow::read);
        Ok(())
    }

    fn draw_once(&mut self, app: &App) -> Result<bool, Failure> {
        let size = terminal_size().filter(|(columns, _)| *columns >= NARROWEST);
        let Some((columns, rows)) = size.filter(|_| in_foreground()) else {
            drop(put_aside());
            return Ok(true);
        };
        self.step += 1;
        let screen = Screen {
            columns,
            rows,
            step: self.step,
            paint: app.out.paint,
        };
        let (says, now) = (|row: &WorkRow| self.says(row), app.clock.now());
        let lines = self.at_work.lines(says, self.since, now, screen);
        if lines.is_empty() {
            drop(put_aside());
            return Ok(false);
        }
        let up = match lines.len() {
            1 => String::new(),
            several => format!("\x1b[{}A", several - 1),
        };
        let frame = format!("\r{}\x1b[J\r{up}", lines.join("\x1b[K\r\n"));
        let mut drawn = DRAWN.lock();
        let mut terminal = io::stdout().lock();
        let written = terminal.write_all(frame.as_bytes());
        let written = written.and_then(|()| terminal.flush());
        *drawn = true;
        written.map_err(Output::failure)?;
        Ok(true)
    }

    fn says(&self, row: &WorkRow) -> AgentSays {
        let agent = row.command.as_ref().and_then(|id| self.agents.get(id));
        agent.map_or_else(AgentSays::default, |agent| {
            let used = agent.used();
            AgentSays {
                doing: agent.doing(&row.workspace),
                tokens: used.input_tokens.saturating_add(used.output_tokens),
                cost_usd: used.cost_usd,
            }
        })
    }
}

impl Drop for LiveArea {
    fn drop(&mut self) {
        drop(put_aside());
    }
}
