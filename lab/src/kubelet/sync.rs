//! The loop that joins source, workers and containers: the stand-in's sync loop.
//!
//! One thread, one `poll(2)` over the manifest watch, the mode file's watch and a handle for each container. Killing it at any point is
//! what the mode *down* is: containers live on under their shims, and the next start adopts them from the state file.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, wait};

use super::container::{self, Container, log_dir};
use super::manifest::Pod;
use super::mode::{ModeFile, Modes};
use super::options::Options;
use super::phase::Effect;
use super::source::FileSource;
use super::state_json::{self, ContainerState, Record, State};
use super::timing::{Stamp, Timing};
use super::workers::{Uid, Workers};
use super::{cgroup, notify, say};

/// The loop looks at least this often, so that a lost event costs no more.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The running stand-in.
pub struct Kubelet {
    options: Options,
    timing: Timing,
    started: Instant,
    source: FileSource,
    mode_file: ModeFile,
    modes: Modes,
    workers: Workers,
    /// By UID: the newest container last, at most two of each.
    containers: BTreeMap<Uid, Vec<Container>>,
    busy_cgroups: Vec<Vec<PathBuf>>,
    published: Option<State>,
    next_tick: Stamp,
    next_list: Stamp,
}

impl Kubelet {
    /// Adopt what an earlier run left, and list the manifests.
    ///
    /// # Errors
    /// The node's name or the state directory cannot be read.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        let node = match &options.node_name {
            Some(name) => name.clone(),
            None => fs::read_to_string(&options.node_name_file)
                .with_context(|| format!("cannot read the node's name from {}", options.node_name_file.display()))?
                .trim()
                .to_owned(),
        };
        fs::create_dir_all(&options.state_dir).with_context(|| format!("cannot create {}", options.state_dir.display()))?;
        let timing = Timing::new(options.tick, options.list_period, options.time_scale);
        let mut kubelet = Self {
            source: FileSource::new(&options.manifests, &node),
            mode_file: ModeFile::new(&options.mode_file),
            modes: Modes::default(),
            workers: Workers::new(timing),
            containers: BTreeMap::new(),
            busy_cgroups: Vec::new(),
            published: None,
            next_tick: timing.tick,
            next_list: timing.list,
            started: Instant::now(),
            options,
            timing,
        };
        kubelet.modes = kubelet.mode_file.read();
        kubelet.adopt()?;
        Ok(kubelet)
    }

    fn now(&self) -> Stamp {
        self.started.elapsed()
    }

    fn state_path(&self) -> PathBuf {
        self.options.state_dir.join("containers.json")
    }

    fn adopt(&mut self) -> anyhow::Result<()> {
        let path = self.state_path();
        let mut records = State::load(&path).with_context(|| format!("cannot read {}", path.display()))?.containers;
        let unremembered = container::unremembered(&records, &self.options)?;
        records.extend(unremembered);
        for record in records {
            self.workers.adopt(pod_of(&record), record.attempt, Stamp::ZERO);
            say(&format!("\"Adopting container\" pod=\"{}/{}\" containerID={:?}", record.namespace, record.pod, record.id));
            self.containers.entry(record.uid.clone()).or_default().push(Container::adopt(record));
        }
        let pods = self.source.list();
        self.desire(&pods);
        let dead: Vec<Uid> = self
            .containers
            .iter()
            .filter(|(_, containers)| containers.last().is_some_and(|last| last.handle.is_none()))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in dead {
            self.workers.died(&uid, Stamp::ZERO);
        }
        Ok(())
    }

    /// Run until the process is ended from outside.
    ///
    /// # Errors
    /// The loop cannot wait for events, or its state cannot be remembered.
    pub fn run(mut self) -> anyhow::Result<()> {
        self.publish()?;
        notify::ready();
        say("\"Started kubelet\"");
        loop {
            self.wait()?;
            self.read_modes();
            self.reap();
            for pods in self.source.drain(self.modes.watch_dead) {
                self.desire(&pods);
            }
            if self.now() >= self.next_list {
                self.next_list = self.now() + self.timing.list;
                self.source.watch();
                let pods = self.source.list();
                self.desire(&pods);
            }
            if self.now() >= self.next_tick {
                self.next_tick = self.now() + self.timing.tick;
                self.busy_cgroups.retain(|dirs| !cgroup::remove(dirs));
                let effects = self.workers.tick(self.now(), self.modes.conditions());
                self.execute(effects);
            }
            let effects = self.workers.poll(self.now(), self.modes.conditions());
            self.execute(effects);
            self.publish()?;
        }
    }

    fn wait(&self) -> anyhow::Result<()> {
        let deadline = self.workers.next_deadline(self.modes.conditions());
        let next = deadline.into_iter().chain([self.next_tick, self.next_list]).min().unwrap_or_default();
        let limit = next.saturating_sub(self.now()).clamp(Duration::from_millis(1), WAIT_MAX);
        let limit = Timespec { tv_sec: i64::try_from(limit.as_secs())?, tv_nsec: limit.subsec_nanos().into() };
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        fds.extend(self.source.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.mode_file.inotify().map(|inotify| PollFd::from_borrowed_fd(inotify.as_fd(), PollFlags::IN)));
        let handles = self.containers.values().flatten().filter_map(|container| container.handle.as_ref());
        fds.extend(handles.map(|handle| PollFd::new(handle, PollFlags::IN)));
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    fn read_modes(&mut self) {
        let modes = self.mode_file.read();
        if modes == self.modes {
            return;
        }
        say(&format!("\"Modes changed\" modes={modes:?}"));
        if modes.log_reader_dead && !self.modes.log_reader_dead {
            self.containers.values().flatten().for_each(Container::kill_reader);
        }
        self.modes = modes;
    }

    /// Notice dead containers, and collect ended shims.
    fn reap(&mut self) {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let now = self.now();
        for (uid, containers) in &mut self.containers {
            for container in containers.iter_mut() {
                if container.has_died() {
                    say(&format!(
                        "\"SyncLoop (PLEG): event for pod\" pod=\"{}/{}\" event=ContainerDied",
                        container.record.namespace, container.record.pod
                    ));
                    self.workers.died(uid, now);
                }
            }
        }
    }

    fn desire(&mut self, pods: &[Pod]) {
        let effects = self.workers.set_desired(pods, self.now(), self.modes.conditions());
        self.execute(effects);
    }

    fn execute(&mut self, effects: Vec<(Uid, Effect)>) {
        for (uid, effect) in effects {
            match effect {
                Effect::Say(sentence) => say(&sentence),
                Effect::Start { attempt } => self.start(&uid, attempt),
                Effect::Term => self.signal(&uid, Signal::TERM),
                Effect::Kill => self.signal(&uid, Signal::KILL),
                Effect::RemoveRecord => {
                    let containers = self.containers.remove(&uid).unwrap_or_default();
                    containers.into_iter().for_each(|container| self.remove(container));
                }
                Effect::RemoveLogDir => self.remove_log_dir(&uid),
            }
        }
    }

    fn start(&mut self, uid: &str, attempt: u32) {
        let Some(pod) = self.workers.pod(uid).cloned() else { return };
        let started = Container::start(&pod, attempt, &self.options);
        self.workers.started(uid, self.now(), started.is_ok());
        match started {
            Ok(container) => {
                say(&format!(
                    "\"SyncLoop (PLEG): event for pod\" pod=\"{}\" event=ContainerStarted attempt={attempt}",
                    pod.key()
                ));
                let containers = self.containers.entry(uid.to_owned()).or_default();
                containers.push(container);
                // One dead container is remembered beside the live one, as the kubelet does by default.
                let excess = containers.len().saturating_sub(2);
                let old: Vec<Container> = containers.drain(..excess).collect();
                old.into_iter().for_each(|container| self.remove(container));
            }
            Err(error) => say(&format!("\"Error syncing pod, skipping\" pod=\"{}\" err=\"{error:#}\"", pod.key())),
        }
    }

    fn remove(&mut self, container: Container) {
        self.busy_cgroups.extend(container.remove(&self.options));
    }

    fn remove_log_dir(&self, uid: &str) {
        let Some(pod) = self.workers.pod(uid) else { return };
        let dir = log_dir(pod, &self.options);
        if let Err(error) = fs::remove_dir_all(&dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            say(&format!("\"Failed to remove pod log directory\" path={dir:?} err=\"{error}\""));
        }
    }

    fn signal(&self, uid: &str, signal: Signal) {
        if let Some(container) = self.containers.get(uid).and_then(|containers| containers.last()) {
            container.signal(signal);
        }
    }

    /// Write both state files if anything changed.
    fn publish(&mut self) -> anyhow::Result<()> {
        let mut state = State::default();
        for (uid, containers) in &mut self.containers {
            let terminating = self.workers.is_terminating(uid);
            for container in containers {
                if container.handle.is_some() {
                    container.record.state = if terminating { ContainerState::Terminating } else { ContainerState::Running };
                }
                state.containers.push(container.record.clone());
            }
        }
        if self.published.as_ref() == Some(&state) {
            return Ok(());
        }
        let path = self.state_path();
        state_json::replace(&path, &state).with_context(|| format!("cannot write {}", path.display()))?;
        if let Err(error) = state_json::replace(&self.options.state_json, &state) {
            say(&format!("\"Failed to publish the state\" path={:?} err=\"{error}\"", self.options.state_json));
        }
        self.published = Some(state);
        Ok(())
    }
}

/// What is known of a pod whose manifest may be gone.
fn pod_of(record: &Record) -> Pod {
    Pod {
        uid: record.uid.clone(),
        namespace: record.namespace.clone(),
        name: record.pod.clone(),
        container: record.container.clone(),
        argv: Vec::new(),
        env: Vec::new(),
        working_dir: "/".to_owned(),
        grace_seconds: record.grace_seconds,
    }
}
