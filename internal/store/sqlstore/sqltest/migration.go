package sqltest

import (
	"fmt"
	"maps"
	"slices"
)

// undo contains the statements that undo a migration, by its number. Both databases
// accept them.
var undo = map[int][]string{
	5: {`drop table mounts`, `drop index trees_deleted`},
	6: {`drop table leaving`},
	7: {
		`alter table secrets drop column hosts`, `alter table secrets drop column agents`, `alter table secrets drop column unnamed`,
		`alter table agents drop column unnamed_secrets`, `alter table orgs drop column secrets_notice`,
	},
	8: {
		`drop table tree_lines`, `drop table pruned_versions`,
		`alter table tree_versions drop column parent_id`, `alter table tree_versions drop column line`, `alter table tree_versions drop column session_id`,
		`alter table runs drop column inherits`, `alter table runs drop column head_moved_from`,
	},
	9: {
		`drop index runs_paused`, `drop table attempts`, `alter table run_specs drop column retries`,
		`alter table runs drop column status_message`, `alter table runs drop column attempt_started_at`, `alter table runs drop column spent_ms`,
		`alter table runs drop column retry_at`, `alter table runs drop column isolation`, `alter table runs drop column image_digest`,
	},
	11: {`drop table hosts`, `drop index runs_claimable`, `alter table runs drop column placement`},
	12: {`alter table runs drop column created_by`},
}

// undoFrom returns the statements that undo a migration and all later ones.
func undoFrom(number int) (statements []string) {
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(undo))) {
		if n >= number {
			statements = append(statements, undo[n]...)
		}
	}
	return append(statements, fmt.Sprintf(`delete from goose_db_version where version_id >= %d`, number))
}
