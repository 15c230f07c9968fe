//! One thread that owns a database connection, and takes all that waits for it at once.
//!
//! Callers are async and never block: they hand a job over and wait for its reply. Whatever came in
//! while the last commit was on its way to the disk shares the next one.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// At most so many jobs share one commit.
const GROUP: usize = 1024;

/// What a thread does with its jobs.
pub(crate) trait Work: Send + 'static {
    /// One job, with the way to answer it.
    type Job: Send + 'static;
    /// Does all of these, and answers each.
    fn run(&mut self, jobs: Vec<Self::Job>);
    /// How long it may sleep without a job before it looks round; `None`: for ever.
    fn rest(&self) -> Option<Duration> {
        None
    }
    /// Looks round, when no job came for that long.
    fn look(&mut self) {}
    /// The last thing it does.
    fn finish(&mut self) {}
}

/// A running thread. Dropping it lets the thread finish what it has, and waits for that.
pub(crate) struct Worker<J> {
    jobs: Option<Sender<J>>,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts a thread. Errors: the system gives no more threads.
    pub(crate) fn start<W: Work<Job = J>>(name: &str, work: W) -> std::io::Result<Self> {
        let (jobs, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(work, &inbox))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }
    /// Hands a job over; `false` if the thread is gone, and the job with it.
    pub(crate) fn send(&self, job: J) -> bool {
        self.jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

impl<J> Drop for Worker<J> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there was told by its missing replies; here there is nothing left to do.
            let _ = thread.join();
        }
    }
}

fn serve<W: Work>(mut work: W, inbox: &Receiver<W::Job>) {
    loop {
        let first = match work.rest() {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(rest) => inbox.recv_timeout(rest),
        };
        match first {
            Ok(job) => {
                let mut jobs = vec![job];
                jobs.extend(inbox.try_iter().take(GROUP - 1));
                work.run(jobs);
            }
            Err(RecvTimeoutError::Timeout) => work.look(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    work.finish();
}
