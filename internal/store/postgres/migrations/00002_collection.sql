-- +goose Up
-- How often the files of an organisation were looked through for what nothing
-- names any more; none is zero times.
create table collections (
	org_id text collate "C" primary key,
	epoch  bigint not null,
	holder text collate "C" not null default '', -- who collects now, or did last
	until  bigint not null default 0 -- whose turn that is, by the database's clock
);

-- What the next collection may delete of the storage.
create table condemned (
	org_id text collate "C" not null,
	key    text collate "C" not null,
	epoch  bigint not null,
	since  bigint not null,
	primary key (org_id, key)
);

-- The versions that somebody asked to keep.
create table kept (
	org_id     text collate "C" not null,
	version_id text collate "C" not null,
	created_at bigint not null,
	primary key (org_id, version_id)
);
