package engine

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/content"
	"github.com/stint-dev/stint/internal/store"
)

// snapshotLimit bounds how long storing the state of a run may take.
const snapshotLimit = 30 * time.Minute

// saved is the state that a run left.
type saved struct {
	checkpoint *store.Checkpoint
	version    *store.RunVersion
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
	workspace, err := j.e.c.Library.FromDir(ctx, j.a.OrgID, j.workspaceFrom, j.workspace, content.DirOptions{})
	if err != nil {
		return saved{}, fmt.Errorf("store workspace: %w", err)
	}
	home, err := j.e.c.Library.FromDir(ctx, j.a.OrgID, j.homeFrom, j.home, content.DirOptions{})
	if err != nil {
		return saved{}, fmt.Errorf("store home: %w", err)
	}
	metadata := j.since(begin)
	metadata["files"], metadata["bytes"] = workspace.Files, workspace.Size
	j.record.system("info", "Workspace and home are stored.", metadata)
	return saved{checkpoint: j.checkpoint(home, workspace), version: j.version(workspace)}, nil
}

func (j *job) checkpoint(home, workspace content.Ref) *store.Checkpoint {
	s, r := j.a.Spec, &j.a.Run
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
func (j *job) version(workspace content.Ref) *store.RunVersion {
	a := j.a.Spec.Artifact
	if a == nil {
		return nil
	}
	now := stint.TimeOf(j.e.c.Now())
	return &store.RunVersion{
		Artifact: store.Tree{OrgID: j.a.OrgID, Tree: stint.Tree{
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
