-- +goose Up
-- The versions that runs mount which have not ended: nothing removes them.
create table mounts (
	org_id     text collate "C" not null,
	version_id text collate "C" not null,
	run_id     text collate "C" not null,
	primary key (org_id, version_id, run_id)
);
insert into mounts (org_id, version_id, run_id)
	select r.org_id, v.value, r.id from runs r cross join lateral json_each_text(r.volumes::json) v
	where r.status in ('pending', 'running') and r.volumes is not null
	on conflict do nothing;

create index trees_deleted on trees (id) where deleted_at is not null;
