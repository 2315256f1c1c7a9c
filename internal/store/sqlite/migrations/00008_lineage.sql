-- +goose Up
-- A version continues the line of its parent if it is the parent's first child.
-- Otherwise it begins a line, whose number is its own. Numbers increase along a
-- line, so of two versions of one line the lower is an ancestor of the higher.
alter table tree_versions add column parent_id text;
alter table tree_versions add column line integer not null default 0;
alter table tree_versions add column session_id text; -- of the run that made the version

create table tree_lines (
	tree_id text not null,
	line    integer not null,
	tip     integer not null, -- number of the newest version
	fork    integer not null, -- number of the parent of the first version; 0 if it has none
	up      integer not null, -- line of that parent
	primary key (tree_id, line)
) strict, without rowid;

-- The removed versions of file sets that exist.
create table pruned_versions (
	tree_id   text not null,
	number    integer not null,
	id        text not null,
	parent_id text,
	line      integer not null,
	digest    text not null,
	primary key (tree_id, number)
) strict, without rowid;

-- The artifact that the run inherits from its session; null if it inherits none.
alter table runs add column inherits text;
alter table runs add column head_moved_from text;

-- The parent of an old version is the version that its run started from: the one
-- that the plan names, otherwise the one that was current when the run started.
-- The parent of a pushed version is the one that was current before.
create table lineage (
	tree_id text not null,
	number  integer not null,
	parent  integer not null,
	line    integer not null,
	primary key (tree_id, number)
) strict, without rowid;
insert into lineage (tree_id, number, parent, line)
	select v.tree_id, v.number, coalesce(
		(select p.number from tree_versions p where p.tree_id = v.tree_id and p.number < v.number
			and p.digest = case when json_valid(s.spec) then json_extract(s.spec, '$.artifact.digest') end
			order by p.number desc limit 1),
		(select p.number from tree_versions p left join runs o on p.created_by = 'run:' || o.id and o.id = substr(p.created_by, 5)
			where p.tree_id = v.tree_id and p.number < v.number and p.created_at <= coalesce(r.started_at, v.created_at)
				and coalesce(o.status, 'completed') = 'completed'
			order by p.number desc limit 1),
		(select p.number from tree_versions p where p.tree_id = v.tree_id and p.number < v.number order by p.number desc limit 1),
		0), v.number
	from tree_versions v
		left join runs r on v.created_by = 'run:' || r.id and r.id = substr(v.created_by, 5)
		left join run_specs s on s.run_id = r.id;
create index lineage_by_parent on lineage (tree_id, parent, number);
with recursive walk (tree_id, number, line) as (
	select tree_id, number, number from lineage where parent = 0
	union all
	select c.tree_id, c.number, case when c.number = (
			select min(f.number) from lineage f where f.tree_id = c.tree_id and f.parent = c.parent) then w.line else c.number end
		from walk w join lineage c on c.tree_id = w.tree_id and c.parent = w.number)
update lineage set line = w.line from walk w where w.tree_id = lineage.tree_id and w.number = lineage.number;
create index lineage_by_line on lineage (tree_id, line, number);
insert into tree_lines (tree_id, line, tip, fork, up)
	select f.tree_id, f.number, (select max(m.number) from lineage m where m.tree_id = f.tree_id and m.line = f.number), f.parent, coalesce(p.line, 0)
	from lineage f left join lineage p on p.tree_id = f.tree_id and p.number = f.parent
	where f.line = f.number;
update tree_versions set line = l.line, parent_id = (
		select p.id from tree_versions p where p.tree_id = l.tree_id and p.number = l.parent)
	from lineage l where l.tree_id = tree_versions.tree_id and l.number = tree_versions.number;
update tree_versions set session_id = r.session_id from runs r
	where tree_versions.created_by = 'run:' || r.id and r.id = substr(tree_versions.created_by, 5);
drop table lineage;
