package worker

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// snapshotLimit bounds how long storing the state of a run may take.
const snapshotLimit = 30 * time.Minute

// saved is the state that a run left.
type saved struct {
	checkpoint *store.Checkpoint
	version    *store.RunVersion
	trees      []files.Ref // that the two name
}

// renew makes the state nameable after a collection began meanwhile.
func (s *saved) renew(ctx context.Context, l *files.Library, org string) error {
	for i, ref := range s.trees {
		ref, err := l.Renew(ctx, org, ref)
		if err != nil {
			return fmt.Errorf("look at stored files again: %w", err)
		}
		s.trees[i] = ref
	}
	s.stamp()
	return nil
}

// stamp says under which epoch the trees were stored.
func (s *saved) stamp() {
	if len(s.trees) == 0 {
		return
	}
	epoch := s.trees[0].Epoch
	for _, ref := range s.trees {
		epoch = min(epoch, ref.Epoch)
	}
	s.checkpoint.Epoch = epoch
	if s.version != nil {
		s.version.Commit.Epoch = epoch
	}
}

// snapshot stores home and workspace as trees. A run whose agent never started
// leaves nothing.
func (j *job) snapshot() (saved, error) {
	if !j.started {
		return saved{}, nil
	}
	begin := j.e.c.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), snapshotLimit)
	defer cancel()
	workspace, exact, err := j.storeWorkspace(ctx)
	if err != nil {
		return saved{}, fmt.Errorf("store workspace: %w", err)
	}
	home, err := j.storeHome(ctx)
	if err != nil {
		return saved{}, fmt.Errorf("store home: %w", err)
	}
	metadata := j.since(begin)
	metadata["files"], metadata["bytes"] = workspace.Files, workspace.Size
	j.record.system("info", "Workspace and home are stored.", metadata)
	if exact {
		j.layReady(ctx, workspace)
	}
	state := saved{checkpoint: j.checkpoint(home, workspace), version: j.version(workspace), trees: []files.Ref{home, workspace}}
	state.stamp()
	return state, nil
}

// storeHome stores what the conversation is of the home folder, with its
// record, encrypted whatever the storage is and read back.
func (j *job) storeHome(ctx context.Context) (files.Ref, error) {
	c := j.conversation()
	if j.unchanged(c) {
		if ref, err := j.e.c.Library.Renew(ctx, j.a.OrgID, files.Ref{Digest: j.a.Plan.Home}); err == nil {
			return ref, nil
		}
	}
	if err := j.putRecord(c); err != nil {
		return files.Ref{}, err
	}
	return j.e.c.Library.CommitDir(ctx, j.a.OrgID, j.a.Plan.Home, j.place.Home, newSelection(j.plan.State).options())
}

// storeWorkspace stores the workspace, of which only what changed is read where
// it was laid over what it began with. Exact tells that the folder on disk
// holds just what was stored.
func (j *job) storeWorkspace(ctx context.Context) (ref files.Ref, exact bool, err error) {
	exact = true
	o := files.DirOptions{OnMismatch: func(string) { exact = false }}
	if j.base == nil {
		ref, err = j.e.c.Library.CommitDir(ctx, j.a.OrgID, j.a.Plan.Workspace, j.place.Workspace, o)
	} else {
		ref, err = j.e.c.Library.CommitOverlay(ctx, j.a.OrgID, j.a.Plan.Workspace, j.upper, o)
	}
	return ref, exact, err
}

// large tells of a tree that it is worth to lie ready for a run that goes on
// from it: smaller ones are checked out as fast.
func large(tree files.Ref) bool { return tree.Size >= 1<<20 || tree.Files >= 200 }

// layReady keeps the workspace on disk as the tree that was stored of it, so
// that a run that goes on from it finds it. The sandbox gives it up before. What
// fails costs time later, and nothing else.
func (j *job) layReady(ctx context.Context, ref files.Ref) {
	if !large(ref) || ref.Digest == j.a.Plan.Workspace {
		return
	}
	if err := j.sandbox.Close(ctx); err != nil {
		j.log.Warn("close sandbox", "error", err)
		return
	}
	dir := j.upper
	if j.base == nil {
		dir = j.place.Workspace
	}
	if err := j.e.cache.Adopt(j.a.OrgID, ref.Digest, j.base, dir); err != nil {
		j.log.Warn("keep the workspace ready", "error", err)
	}
}

func (j *job) checkpoint(home, workspace files.Ref) *store.Checkpoint {
	s, r := j.a.Plan, &j.a.Run
	c := &store.Checkpoint{OrgID: j.a.OrgID, HomeDigest: home.Digest, WorkspaceDigest: workspace.Digest}
	c.Checkpoint = stint.Checkpoint{
		ID: j.e.c.IDs.New(stint.PrefixCheckpoint), RunID: r.ID, SessionID: r.SessionID,
		AgentID: r.AgentID, AgentName: r.AgentName, AgentVersionID: j.a.AgentVersionID,
		Volumes: map[string]string{}, Variables: map[string]string{}, SecretNames: append([]string{}, s.SecretNames...),
		CreatedAt: stint.TimeOf(j.e.c.Now()),
	}
	maps.Copy(c.Variables, s.Variables)
	for _, v := range s.Volumes {
		c.Volumes[v.Name] = v.Version
	}
	if s.Artifact != nil {
		c.ArtifactName = &s.Artifact.Name
	}
	return c
}

// version is nil for a run without an artifact.
func (j *job) version(workspace files.Ref) *store.RunVersion {
	a := j.a.Plan.Artifact
	if a == nil {
		return nil
	}
	now := stint.TimeOf(j.e.c.Now())
	return &store.RunVersion{
		Artifact: store.FileSet{OrgID: j.a.OrgID, FileSet: stint.FileSet{
			ID: j.e.c.IDs.New(stint.PrefixArtifact), Name: a.Name, Kind: stint.Artifacts, CreatedAt: now, UpdatedAt: now,
		}},
		Commit: store.Commit{
			OrgID: j.a.OrgID, Suffix: newSuffix(), Digest: workspace.Digest, Size: workspace.Size, FileCount: workspace.Files,
			Message: "Output of " + j.a.Run.ID, CreatedBy: "run:" + j.a.Run.ID, CreatedAt: now,
		},
	}
}

// newSuffix is the random part of a version's identifier.
func newSuffix() string {
	b := make([]byte, 13)
	_, _ = rand.Read(b) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))[:20]
}
