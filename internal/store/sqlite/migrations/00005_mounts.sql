-- +goose Up
-- The versions that runs mount which have not ended: nothing removes them.
create table mounts (
	org_id     text not null,
	version_id text not null,
	run_id     text not null,
	primary key (org_id, version_id, run_id)
) strict, without rowid;
insert or ignore into mounts (org_id, version_id, run_id)
	select r.org_id, v.value, r.id from runs r join json_each(r.volumes) v
	where r.status in ('pending', 'running') and r.volumes is not null;

create index trees_deleted on trees (id) where deleted_at is not null;
