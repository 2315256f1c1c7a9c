-- +goose Up
-- What the worker of each installation offers, as it last recorded it.
create table hosts (
	host       text collate "C" not null primary key,
	isolations text collate "C" not null, -- JSON list of names
	frameworks text collate "C" not null, -- JSON list of names
	labels     text collate "C" not null, -- JSON object
	seen_at    bigint not null -- by the database's clock
);

-- The labels that a worker must have to claim the run, as a JSON object; null for any
-- worker.
alter table runs add column placement text collate "C";
drop index if exists runs_claimable;
create index runs_claimable on runs (agent_id, priority desc, created_at, id) include (placement) where status = 'pending' and ready = 1;
