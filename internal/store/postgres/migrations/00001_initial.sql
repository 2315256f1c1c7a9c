-- +goose Up
-- Times are microseconds since 1970; JSON is text; nothing is ever null but
-- what does not exist yet. Text sorts by byte, as identifiers do.

create table orgs (
	id         text collate "C" primary key,
	name       text collate "C" not null unique,
	created_at bigint not null
);

create table users (
	id         text collate "C" primary key,
	name       text collate "C" not null unique,
	created_at bigint not null
);

create table members (
	org_id     text collate "C" not null references orgs (id),
	user_id    text collate "C" not null references users (id),
	role       text collate "C" not null,
	created_at bigint not null,
	primary key (org_id, user_id)
);

create table tokens (
	id           text collate "C" primary key,
	org_id       text collate "C" not null,
	user_id      text collate "C" not null,
	name         text collate "C" not null,
	prefix       text collate "C" not null,
	scopes       text collate "C" not null,
	hash         bytea not null unique,
	created_at   bigint not null,
	expires_at   bigint not null,
	last_used_at bigint,
	revoked_at   bigint
) with (fillfactor = 70);
create index tokens_by_age on tokens (org_id, created_at desc, id desc) where revoked_at is null;

create table secrets (
	org_id     text collate "C" not null,
	name       text collate "C" not null,
	sealed     bytea not null,
	created_at bigint not null,
	updated_at bigint not null,
	primary key (org_id, name)
);

create table agents (
	id         text collate "C" primary key,
	org_id     text collate "C" not null,
	name       text collate "C" not null,
	version_id text collate "C" not null,
	created_at bigint not null,
	updated_at bigint not null,
	deleted_at bigint
) with (fillfactor = 70);
create unique index agents_by_name on agents (org_id, name) where deleted_at is null;
create index agents_by_age on agents (org_id, created_at desc, id desc) where deleted_at is null;

create table agent_versions (
	id         text collate "C" primary key,
	org_id     text collate "C" not null,
	agent_id   text collate "C" not null,
	number     bigint not null,
	digest     text collate "C" not null,
	definition text collate "C" not null,
	created_by text collate "C" not null,
	created_at bigint not null,
	unique (agent_id, number)
);
create index agent_versions_by_age on agent_versions (agent_id, created_at desc, id desc);

create table trees (
	id         text collate "C" primary key,
	org_id     text collate "C" not null,
	kind       text collate "C" not null,
	name       text collate "C" not null,
	head       bigint, -- number of the current version
	newest     bigint not null, -- number given last
	created_at bigint not null,
	updated_at bigint not null,
	deleted_at bigint
) with (fillfactor = 70);
create unique index trees_by_name on trees (org_id, kind, name) where deleted_at is null;
create index trees_by_age on trees (org_id, kind, created_at desc, id desc) where deleted_at is null;

create table tree_versions (
	tree_id    text collate "C" not null,
	number     bigint not null,
	id         text collate "C" not null,
	digest     text collate "C" not null,
	size       bigint not null,
	file_count bigint not null,
	message    text collate "C" not null,
	created_by text collate "C" not null,
	created_at bigint not null,
	primary key (tree_id, number),
	unique (tree_id, id)
);
create index tree_versions_by_age on tree_versions (tree_id, created_at desc, number desc);

create table sessions (
	id            text collate "C" primary key,
	org_id        text collate "C" not null,
	agent_id      text collate "C" not null,
	agent_name    text collate "C" not null,
	checkpoint_id text collate "C",
	last_run_id   text collate "C" not null,
	created_at    bigint not null,
	updated_at    bigint not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
create index sessions_by_age on sessions (org_id, created_at desc, id desc);

-- A run's row is rewritten at each step of its life, so what is large and
-- frozen stands in run_specs, and pages keep room for the next version.
create table runs (
	id               text collate "C" primary key,
	org_id           text collate "C" not null,
	agent_id         text collate "C" not null,
	agent_name       text collate "C" not null,
	agent_version_id text collate "C" not null,
	session_id       text collate "C" not null,
	status           text collate "C" not null,
	ready            bigint not null, -- 1 when its turn in the session has come
	priority         bigint not null,
	epoch            bigint not null,
	worker_id        text collate "C" not null,
	timeout_us       bigint not null,
	max_retries      bigint not null,
	created_at       bigint not null,
	started_at       bigint,
	claimed_at       bigint, -- by the database's clock
	completed_at     bigint,
	execution_ms     bigint,
	reason           text collate "C",
	exit_code        bigint,
	checkpoint_id    text collate "C",
	artifact_name    text collate "C",
	artifact_version text collate "C",
	parent_run_id    text collate "C",
	trace_id         text collate "C",
	volumes          text collate "C",
	metadata         text collate "C",
	usage            text collate "C",
	error            text collate "C"
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
create index runs_by_age on runs (org_id, created_at desc, id desc);
create index runs_by_status on runs (org_id, status, created_at desc, id desc);
create index runs_by_agent on runs (agent_id, created_at desc, id desc);
create index runs_by_session on runs (session_id, created_at desc, id desc);
create index runs_claimable on runs (agent_id, priority desc, created_at, id) where status = 'pending' and ready = 1;
create index runs_pending on runs (created_at, id) where status = 'pending';
create index runs_held on runs (worker_id, id) where status = 'running';
create index runs_open on runs (session_id, created_at, id) where status in ('pending', 'running');

create table run_specs (
	run_id text collate "C" primary key,
	prompt text collate "C" not null,
	spec   text collate "C",
	sealed bytea
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- How much each organisation (agent_id is empty) and each agent runs and has
-- ready to run.
create table load (
	org_id   text collate "C" not null,
	agent_id text collate "C" not null,
	running  bigint not null,
	ready    bigint not null,
	served   bigint not null, -- when it was last given to a worker
	primary key (org_id, agent_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index load_by_turn on load (running, served, org_id) where agent_id = '' and ready > 0;

-- What is not yet counted in load. Rows come and go with every run, so the
-- table is vacuumed often.
create table load_changes (
	org_id   text collate "C" not null,
	agent_id text collate "C" not null,
	running  bigint not null,
	ready    bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index load_changes_of on load_changes (org_id);

-- One row is one batch of events in the slots seq to last. Owner is the epoch
-- that may write what follows; 0 when nobody may. The key must hold the
-- partition's column, and run identifiers sort by time: so partitions are
-- ranges of them. Bodies are compressed before they come here.
create table journal (
	run_id text collate "C" not null,
	seq    bigint not null,
	last   bigint not null,
	owner  bigint not null,
	token  text collate "C" not null,
	floor  bigint not null, -- no event is older
	at     bigint not null, -- time of the last event
	body   bytea not null,
	primary key (run_id, seq)
) partition by range (run_id);

create table log_entries (
	run_id text collate "C" not null,
	seq    bigint not null,
	last   bigint not null,
	token  text collate "C" not null,
	floor  bigint not null,
	at     bigint not null,
	body   bytea not null,
	primary key (run_id, seq)
) partition by range (run_id);

alter table journal alter column body set storage external;
alter table log_entries alter column body set storage external;

-- What no partition was made for in time.
create table journal_rest partition of journal default;
create table log_entries_rest partition of log_entries default;

create table checkpoints (
	id               text collate "C" primary key,
	org_id           text collate "C" not null,
	run_id           text collate "C" not null,
	session_id       text collate "C" not null,
	agent_id         text collate "C" not null,
	agent_name       text collate "C" not null,
	agent_version_id text collate "C" not null,
	artifact_name    text collate "C",
	artifact_version text collate "C",
	volumes          text collate "C",
	variables        text collate "C",
	secret_names     text collate "C",
	home_digest      text collate "C" not null,
	workspace_digest text collate "C" not null,
	created_at       bigint not null
);

-- The versions that checkpoints name: they outlive their tree.
create table pins (
	org_id     text collate "C" not null,
	version_id text collate "C" not null,
	primary key (org_id, version_id)
);

create table metrics (
	run_id     text collate "C" not null,
	at         bigint not null,
	cpu        double precision not null,
	mem_used   bigint not null,
	mem_total  bigint not null,
	disk_used  bigint not null,
	disk_total bigint not null,
	primary key (run_id, at)
);

create table workers (
	id          text collate "C" primary key,
	host        text collate "C" not null,
	capacity    bigint not null,
	created_at  bigint not null,
	lease_until bigint not null -- 0 once it has ended
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create table idempotency (
	org_id      text collate "C" not null,
	key         text collate "C" not null,
	fingerprint bytea not null,
	started_at  bigint not null,
	expires_at  bigint not null,
	status      bigint, -- of the answer; null while it is being worked
	header      text collate "C",
	body        bytea,
	primary key (org_id, key)
);
create index idempotency_by_age on idempotency (expires_at);

-- Written by health checks, to see that the database accepts writes.
create table pulse (
	id bigint primary key,
	at bigint not null
);
