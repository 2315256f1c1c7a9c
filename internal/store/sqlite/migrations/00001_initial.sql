-- +goose Up
-- Times are microseconds since 1970; JSON is text; nothing is ever null but
-- what does not exist yet.

create table orgs (
	id         text primary key,
	name       text not null unique,
	created_at integer not null
) strict, without rowid;

create table users (
	id         text primary key,
	name       text not null unique,
	created_at integer not null
) strict, without rowid;

create table members (
	org_id     text not null references orgs (id),
	user_id    text not null references users (id),
	role       text not null,
	created_at integer not null,
	primary key (org_id, user_id)
) strict, without rowid;

create table tokens (
	id           text primary key,
	org_id       text not null,
	user_id      text not null,
	name         text not null,
	prefix       text not null,
	scopes       text not null,
	hash         blob not null unique,
	created_at   integer not null,
	expires_at   integer not null,
	last_used_at integer,
	revoked_at   integer
) strict, without rowid;
create index tokens_by_age on tokens (org_id, created_at desc, id desc) where revoked_at is null;

create table secrets (
	org_id     text not null,
	name       text not null,
	sealed     blob not null,
	created_at integer not null,
	updated_at integer not null,
	primary key (org_id, name)
) strict, without rowid;

create table agents (
	id         text primary key,
	org_id     text not null,
	name       text not null,
	version_id text not null,
	created_at integer not null,
	updated_at integer not null,
	deleted_at integer
) strict, without rowid;
create unique index agents_by_name on agents (org_id, name) where deleted_at is null;
create index agents_by_age on agents (org_id, created_at desc, id desc) where deleted_at is null;

create table agent_versions (
	id         text primary key,
	org_id     text not null,
	agent_id   text not null,
	number     integer not null,
	digest     text not null,
	definition text not null,
	created_by text not null,
	created_at integer not null,
	unique (agent_id, number)
) strict;
create index agent_versions_by_age on agent_versions (agent_id, created_at desc, id desc);

create table trees (
	id         text primary key,
	org_id     text not null,
	kind       text not null,
	name       text not null,
	head       integer, -- number of the current version
	newest     integer not null, -- number given last
	created_at integer not null,
	updated_at integer not null,
	deleted_at integer
) strict, without rowid;
create unique index trees_by_name on trees (org_id, kind, name) where deleted_at is null;
create index trees_by_age on trees (org_id, kind, created_at desc, id desc) where deleted_at is null;

create table tree_versions (
	tree_id    text not null,
	number     integer not null,
	id         text not null,
	digest     text not null,
	size       integer not null,
	file_count integer not null,
	message    text not null,
	created_by text not null,
	created_at integer not null,
	primary key (tree_id, number),
	unique (tree_id, id)
) strict, without rowid;
create index tree_versions_by_age on tree_versions (tree_id, created_at desc, number desc);

create table sessions (
	id            text primary key,
	org_id        text not null,
	agent_id      text not null,
	agent_name    text not null,
	checkpoint_id text,
	last_run_id   text not null,
	created_at    integer not null,
	updated_at    integer not null
) strict, without rowid;
create index sessions_by_age on sessions (org_id, created_at desc, id desc);

-- A run's row is rewritten at each step of its life, so what is large and
-- frozen stands in run_specs.
create table runs (
	id               text primary key,
	org_id           text not null,
	agent_id         text not null,
	agent_name       text not null,
	agent_version_id text not null,
	session_id       text not null,
	status           text not null,
	ready            integer not null, -- 1 when its turn in the session has come
	priority         integer not null,
	epoch            integer not null,
	worker_id        text not null,
	timeout_us       integer not null,
	max_retries      integer not null,
	created_at       integer not null,
	started_at       integer,
	claimed_at       integer, -- by the database's clock
	completed_at     integer,
	execution_ms     integer,
	reason           text,
	exit_code        integer,
	checkpoint_id    text,
	artifact_name    text,
	artifact_version text,
	parent_run_id    text,
	trace_id         text,
	volumes          text,
	metadata         text,
	usage            text,
	error            text
) strict;
create index runs_by_age on runs (org_id, created_at desc, id desc);
create index runs_by_status on runs (org_id, status, created_at desc, id desc);
create index runs_by_agent on runs (agent_id, created_at desc, id desc);
create index runs_by_session on runs (session_id, created_at desc, id desc);
create index runs_claimable on runs (agent_id, priority desc, created_at, id) where status = 'pending' and ready = 1;
create index runs_pending on runs (created_at, id) where status = 'pending';
create index runs_held on runs (worker_id, id) where status = 'running';
create index runs_open on runs (session_id, created_at, id) where status in ('pending', 'running');

create table run_specs (
	run_id text primary key,
	prompt text not null,
	spec   text,
	sealed blob
) strict;

-- How much each organisation (agent_id is empty) and each agent runs and has
-- ready to run.
create table load (
	org_id   text not null,
	agent_id text not null,
	running  integer not null,
	ready    integer not null,
	served   integer not null, -- when it was last given to a worker
	primary key (org_id, agent_id)
) strict, without rowid;
create index load_by_turn on load (running, served, org_id) where agent_id = '' and ready > 0;

-- One row is one batch of events in the slots seq to last. Owner is the epoch
-- that may write what follows; 0 when nobody may. The tables keep their rowid:
-- so the bodies of many runs lie one after the other as they were written, and
-- a commit touches few pages.
create table journal (
	run_id text not null,
	seq    integer not null,
	last   integer not null,
	owner  integer not null,
	token  text not null,
	floor  integer not null, -- no event is older
	at     integer not null, -- time of the last event
	body   blob not null,
	primary key (run_id, seq)
) strict;

create table log_entries (
	run_id text not null,
	seq    integer not null,
	last   integer not null,
	token  text not null,
	floor  integer not null,
	at     integer not null,
	body   blob not null,
	primary key (run_id, seq)
) strict;

create table checkpoints (
	id               text primary key,
	org_id           text not null,
	run_id           text not null,
	session_id       text not null,
	agent_id         text not null,
	agent_name       text not null,
	agent_version_id text not null,
	artifact_name    text,
	artifact_version text,
	volumes          text,
	variables        text,
	secret_names     text,
	home_digest      text not null,
	workspace_digest text not null,
	created_at       integer not null
) strict, without rowid;

-- The versions that checkpoints name: they outlive their tree.
create table pins (
	org_id     text not null,
	version_id text not null,
	primary key (org_id, version_id)
) strict, without rowid;

create table metrics (
	run_id     text not null,
	at         integer not null,
	cpu        real not null,
	mem_used   integer not null,
	mem_total  integer not null,
	disk_used  integer not null,
	disk_total integer not null,
	primary key (run_id, at)
) strict, without rowid;

create table workers (
	id          text primary key,
	host        text not null,
	capacity    integer not null,
	created_at  integer not null,
	lease_until integer not null -- 0 once it has ended
) strict, without rowid;

create table idempotency (
	org_id      text not null,
	key         text not null,
	fingerprint blob not null,
	started_at  integer not null,
	expires_at  integer not null,
	status      integer, -- of the answer; null while it is being worked
	header      text,
	body        blob,
	primary key (org_id, key)
) strict, without rowid;
create index idempotency_by_age on idempotency (expires_at);

-- Written by health checks, to see that the database accepts writes.
create table pulse (
	id integer primary key,
	at integer not null
) strict;
