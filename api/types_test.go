package api_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
)

// eventTime is the member that the feed adds to the data of each event.
var eventTime = []string{"timestamp"}

// types maps names of schemas to values of their Go types in package stint. without
// lists the JSON members of the type that the schema does not have, and with those of the
// schema that the type does not have.
var types = map[string]struct {
	of            any
	without, with []string
}{
	"Run":                {of: stint.Run{}},
	"CreatedRun":         {of: stint.Run{}, without: []string{"volumes"}},
	"Queue":              {of: stint.Queue{}},
	"StorageUsage":       {of: stint.StorageUsage{}},
	"RunSummary":         {of: stint.RunSummary{}},
	"NewRun":             {of: stint.NewRun{}},
	"Limits":             {of: stint.Limits{}},
	"StatusData":         {of: stint.StatusData{}, with: eventTime},
	"OutputData":         {of: stint.OutputData{}, with: eventTime},
	"Item":               {of: stint.Item{}},
	"ToolItem":           {of: stint.ToolItem{}},
	"PlanEntry":          {of: stint.PlanEntry{}},
	"Usage":              {of: stint.Usage{}},
	"Tokens":             {of: stint.Tokens{}},
	"ErrorData":          {of: stint.ErrorData{}, with: eventTime},
	"CompleteData":       {of: stint.CompleteData{}, with: eventTime},
	"StatusEvent":        {of: stint.Event{}},
	"CompleteEvent":      {of: stint.Event{}},
	"LogEntry":           {of: stint.LogEntry{}},
	"Metrics":            {of: stint.Metrics{}},
	"Activity":           {of: stint.Activity{}},
	"ActiveRun":          {of: stint.ActiveRun{}},
	"MetricsSample":      {of: stint.MetricsSample{}},
	"MetricsSummary":     {of: stint.MetricsSummary{}},
	"Agent":              {of: stint.Agent{}},
	"AgentVersion":       {of: stint.AgentVersion{}, without: []string{"definition"}},
	"AgentVersionDetail": {of: stint.AgentVersion{}},
	"AgentDefinition":    {of: stint.Definition{}},
	"Artifact":           {of: stint.FileSet{}},
	"ArtifactDetail":     {of: stint.FileSetDetail{}},
	"ArtifactVersion":    {of: stint.FileSetVersion{}, without: []string{"volumeId"}},
	"Volume":             {of: stint.FileSet{}},
	"VolumeDetail":       {of: stint.FileSetDetail{}},
	"VolumeVersion":      {of: stint.FileSetVersion{}, without: []string{"artifactId"}},
	"FileEntry":          {of: stint.FileEntry{}},
	"FileChange":         {of: stint.FileChange{}},
	"Session":            {of: stint.Session{}},
	"Checkpoint":         {of: stint.Checkpoint{}},
	"Token":              {of: stint.Token{}, without: []string{"token"}},
	"CreatedToken":       {of: stint.Token{}},
	"NewToken":           {of: stint.NewToken{}},
	"Secret":             {of: stint.Secret{}},
	"Framework":          {of: stint.Framework{}},
	"Capabilities":       {of: stint.Capabilities{}},
	"Price":              {of: stint.Price{}},
	"McpServer":          {of: stint.MCPServer{}},
	"Pagination":         {of: stint.Pagination{}},
	"RunPage":            {of: stint.Page[stint.RunSummary]{}},
}

// members returns the names of the JSON members of a struct, including those of
// embedded structs, and the names of the members that may be omitted.
func members(t reflect.Type) (all, optional []string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			inner, innerOptional := members(f.Type)
			all, optional = append(all, inner...), append(optional, innerOptional...)
		default:
			all = append(all, name)
			if strings.Contains(options, "omit") {
				optional = append(optional, name)
			}
		}
	}
	return all, optional
}

func TestSchemasMatchTypes(t *testing.T) {
	t.Parallel()
	doc := valid(t)
	for name, typ := range types {
		all, optional := members(reflect.TypeOf(typ.of))
		all = slices.DeleteFunc(all, func(m string) bool { return slices.Contains(typ.without, m) })
		all = append(all, typ.with...)
		s := doc.Components.Schemas[name].Value
		if diff := cmp.Diff(slices.Sorted(slices.Values(all)), slices.Sorted(maps.Keys(s.Properties))); diff != "" {
			t.Errorf("%s (-types +contract):\n%s", name, diff)
		}
		for _, m := range all {
			if !slices.Contains(optional, m) && !slices.Contains(s.Required, m) {
				t.Errorf("%s: %s is always present but not required", name, m)
			}
		}
	}
}

func TestEnumerationsMatchConstants(t *testing.T) {
	t.Parallel()
	schemas := valid(t).Components.Schemas
	statuses := make([]string, len(stint.Statuses))
	for i, s := range stint.Statuses {
		statuses[i] = string(s)
	}
	for name, c := range map[string]struct {
		of   *openapi3.SchemaRef
		want []string
	}{
		"status": {schemas["RunStatus"], statuses},
		"scopes": {schemas["Scope"], stint.Scopes},
		"reasons": {schemas["StatusReason"], []string{
			string(stint.ReasonExitCode), string(stint.ReasonTimeLimit), string(stint.ReasonIdleLimit), string(stint.ReasonMismatch), string(stint.ReasonCancelled), string(stint.ReasonOutOfMemory),
			string(stint.ReasonDiskFull), string(stint.ReasonOutputLimit), string(stint.ReasonWorkerLost), string(stint.ReasonSandboxError),
			string(stint.ReasonSetupFailed), string(stint.ReasonQueueExpired), string(stint.ReasonBudget),
		}},
		"codes": {schemas["ErrorCode"], []string{
			stint.CodeInvalidAPIKey, stint.CodeInsufficientScope, stint.CodeOriginNotAllowed, stint.CodeQuotaExceeded, stint.CodeLinkExpired, stint.CodeInvalidParameter, stint.CodeMissingParameter, stint.CodeInvalidState,
			stint.CodeMethodNotAllowed, stint.CodeNotAcceptable, stint.CodeRequestTooLarge, stint.CodeUnsupportedMediaType,
			stint.CodeRangeNotSatisfiable, stint.CodeResourceNotFound, stint.CodeResourceAlreadyExists, stint.CodeVersionConflict, stint.CodeChunksMissing,
			stint.CodeKeyReused, stint.CodeKeyInUse, stint.CodeRateLimitExceeded, stint.CodeQueueFull, stint.CodeInternal, stint.CodeUnavailable,
		}},
		"queue reasons": {schemas["Queue"].Value.Properties["reason"], []string{
			string(stint.QueueCapacity), string(stint.QueueOrganisationLimit), string(stint.QueueAgentLimit), string(stint.QueueSession), string(stint.QueueRetry),
			string(stint.QueuePlacement), string(stint.QueueIsolation), string(stint.QueueUnhealthy), string(stint.QueueSalvage),
		}},
		"items": {schemas["Item"].Value.Properties["kind"], []string{
			string(stint.ItemMessage), string(stint.ItemReasoning), string(stint.ItemToolCall), string(stint.ItemToolResult), string(stint.ItemPlan), string(stint.ItemNotice),
		}},
		"tools":       {schemas["ToolItem"].Value.Properties["category"], stint.ToolCategories},
		"tool states": {schemas["ToolItem"].Value.Properties["status"], []string{stint.ToolInProgress, stint.ToolCompleted, stint.ToolFailed}},
		"costs":       {schemas["Usage"].Value.Properties["costSource"], []string{stint.CostByAgent, stint.CostByPrices}},
		"log types":   {schemas["LogEntry"].Value.Properties["type"], []string{string(stint.LogAgent), string(stint.LogSystem), string(stint.LogNetwork)}},
	} {
		if diff := cmp.Diff(strings.Join(c.want, " "), words(c.of)); diff != "" {
			t.Errorf("%s (-constants +contract):\n%s", name, diff)
		}
	}
}

// TestExamplesRoundTrip checks that an example does not change if it is decoded into
// its Go type and encoded again.
func TestExamplesRoundTrip(t *testing.T) {
	t.Parallel()
	doc := valid(t)
	for name, into := range map[string]any{
		"Run": &stint.Run{}, "CreatedRun": &stint.Run{}, "FailedRun": &stint.Run{}, "CancelledRun": &stint.Run{}, "NewRunFull": &stint.NewRun{},
		"RunPage": &stint.Page[stint.RunSummary]{}, "EventPage": &stint.Page[stint.Event]{}, "LogPage": &stint.Page[stint.LogEntry]{},
		"Metrics": &stint.Metrics{}, "Agent": &stint.Agent{}, "AgentVersionDetail": &stint.AgentVersion{}, "ArtifactDetail": &stint.FileSetDetail{},
		"EmptyVolume": &stint.FileSetDetail{}, "VolumeVersionPage": &stint.Page[stint.FileSetVersion]{}, "FilePage": &stint.Page[stint.FileEntry]{},
		"ChangePage": &stint.Page[stint.FileChange]{}, "Session": &stint.Session{}, "Checkpoint": &stint.Checkpoint{},
		"Token": &stint.Token{}, "CreatedToken": &stint.Token{}, "NewToken": &stint.NewToken{}, "SecretPage": &stint.Page[stint.Secret]{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(doc.Components.Examples[name].Value.Value)
			if err != nil {
				t.Fatal(err)
			}
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			if err := dec.Decode(into); err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(into)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decoded(t, raw), decoded(t, encoded)); diff != "" {
				t.Errorf("(-example +encoded):\n%s", diff)
			}
		})
	}
}

func decoded(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDefinitionExamplesAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"NewAgent", "NewAgentFull", "AgentDefinition"} {
		raw, err := json.Marshal(valid(t).Components.Examples[name].Value.Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := definition.Parse(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
