package compatibility_test

import (
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
	"github.com/stint-dev/stint/internal/testkit/apitest"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// opened is the data of an earlier release, opened by a server of this release.
type opened struct {
	*installation.Host
	t        *testing.T
	home     string // home folder of the command line
	recorded recording
	tokens   map[string]string // by organisation; issued by the server of this release
}

// openSQLite opens the fixture with a SQLite database and files in the data folder.
func openSQLite(t *testing.T, fixture string) *opened {
	t.Helper()
	h := installation.New(t, "--gc-every", "0")
	unpack(t, fixture+".tar.gz", filepath.Dir(h.Data))
	return open(t, h, fixture)
}

// openPostgres opens the fixture with a PostgreSQL database and a bucket. Its data
// folder contains only the keys and the identity of the installation.
func openPostgres(t *testing.T, fixture string) *opened {
	t.Helper()
	server, err := s3test.Start()
	installation.Check(t, err)
	t.Cleanup(func() { installation.Check(t, server.Close()) })
	installation.Check(t, server.NewBucket("bucket"))
	database := pgtest.URL(t)
	h := installation.New(t, "--gc-every", "0")
	h.Env = append(server.Env(), "STINT_DATABASE="+database, "STINT_STORAGE="+server.URL("bucket"), "STINT_ENCRYPT_STORAGE=on")
	dir := filepath.Dir(h.Data)
	unpack(t, fixture+".tar.gz", dir)
	restoreDatabase(t, filepath.Join(dir, "dump.sql"), database)
	restoreBucket(t, filepath.Join(dir, "bucket"), server)
	return open(t, h, fixture)
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tar", "--no-same-owner", "-xpzf", archive, "-C", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("unpack %s: %v\n%s", archive, err, out)
	}
}

// restoreDatabase executes a dump, which consists of SQL statements only.
func restoreDatabase(t *testing.T, dump, database string) {
	t.Helper()
	statements, err := os.ReadFile(dump)
	installation.Check(t, err)
	conn, err := pgx.Connect(t.Context(), database)
	installation.Check(t, err)
	_, err = conn.PgConn().Exec(t.Context(), string(statements)).ReadAll()
	installation.Check(t, err)
	installation.Check(t, conn.Close(t.Context()))
}

// restoreBucket uploads each file below dir as an object. The key of the object is the
// relative path of the file.
func restoreBucket(t *testing.T, dir string, server *s3test.Server) {
	t.Helper()
	u, err := url.Parse(server.URL("bucket"))
	installation.Check(t, err)
	env := map[string]string{}
	for _, pair := range server.Env() {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	endpoint := strings.TrimPrefix(u.Query().Get("endpoint"), "http://")
	s3, err := minio.New(endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], ""),
		Region:       u.Query().Get("region"),
		BucketLookup: minio.BucketLookupPath,
	})
	installation.Check(t, err)
	installation.Check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err == nil {
			_, err = s3.FPutObject(t.Context(), "bucket", filepath.ToSlash(key), path, minio.PutObjectOptions{})
		}
		return err
	}))
}

// open starts the server on the data of a fixture. It issues new tokens, because the
// tokens of the fixture expire a year after the fixture was generated.
func open(t *testing.T, h *installation.Host, fixture string) *opened {
	t.Helper()
	o := &opened{Host: h, t: t, home: t.TempDir(), tokens: map[string]string{}}
	f, err := os.Open(fixture + ".json.gz")
	installation.Check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	installation.Check(t, err)
	d := json.NewDecoder(z)
	d.UseNumber()
	installation.Check(t, d.Decode(&o.recorded))
	h.Start()
	for _, org := range []string{"beta", "acme"} { // the command line keeps the last token, that of acme
		o.stint("auth", "login", "--data", h.Data, "--org", org)
		o.tokens[org] = strings.TrimSpace(o.stint("auth", "token"))
	}
	return o
}

// stint runs the command line as a user of the organisation acme, and returns its
// standard output.
func (o *opened) stint(args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), installation.Binary(o.t), args...)
	cmd.Env = append(os.Environ(), "HOME="+o.home, "XDG_CONFIG_HOME="+o.home, "STINT_URL=http://"+o.Listen)
	cmd.Env = append(cmd.Env, o.Env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		o.t.Fatalf("stint %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func (o *opened) client() *client.Client {
	o.t.Helper()
	c, err := client.New(client.Options{URL: "http://" + o.Listen, Token: o.tokens["acme"], HTTP: apitest.Client(o.t)})
	installation.Check(o.t, err)
	return c
}
