package s3

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stint-dev/stint/internal/blob"
)

const (
	// attempts is how often the library sends a request at most. After a broken
	// connection, a 5xx, or a 429 it waits a random part of 0.2 s, 0.4 s, 0.8 s,
	// then 1 s.
	attempts = 8
	// callLimit is the time limit of a request including its retries. It suffices
	// to send a part of 16 MiB at 28 KB/s.
	callLimit = 10 * time.Minute
	// settleLimit is the time limit of requests that are sent even if the caller's
	// context has ended, such as the abort of an upload.
	settleLimit = 10 * time.Second
	// maxIdle is the number of idle connections that are kept open.
	maxIdle = 64
)

// suffix ends the names of objects; see the package comment.
const suffix = "!"

// Config configures Open.
type Config struct {
	// URL is s3://BUCKET[/PREFIX][?endpoint=URL&region=R&path_style=BOOL].
	// The default endpoint is Amazon's. The default region is AWS_REGION, then
	// AWS_DEFAULT_REGION, then the one that the server reports. The default of
	// path_style depends on the endpoint.
	URL string
	// Part is a key element that is added to the URL's prefix; empty for none.
	Part string
}

// Store is a blob.Store in a bucket, below a prefix. Several processes can use
// the same bucket and prefix.
type Store struct {
	location
	core      *minio.Core
	transport transport
	partSize  int           // bytes of a part
	pageSize  int           // objects per list request; 0 is the server's default
	stall     time.Duration // how long a download may deliver nothing
}

var (
	_ blob.Store     = (*Store)(nil)
	_ blob.Presigner = (*Store)(nil)
)

// Open returns a store after checking that the bucket supports all operations of a
// Store. The check sends about ten requests and leaves nothing behind. Its errors are
// messages for the operator. The credentials are those in AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, otherwise those in the shared credentials file, otherwise
// those of the role of the environment, the container, or the machine.
func Open(ctx context.Context, c Config) (*Store, error) {
	s, err := connect(c)
	if err != nil {
		return nil, err
	}
	if err := s.probe(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect returns a store without sending a request.
func connect(c Config) (*Store, error) {
	l, err := parse(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Part != "" {
		l.prefix += c.Part + "/"
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if l.region == "" {
			l.region = os.Getenv(name)
		}
	}
	t := newTransport()
	core, err := minio.NewCore(l.endpoint.Host, &minio.Options{
		Creds: newCredentials(), Secure: l.endpoint.Scheme == "https", Region: l.region,
		BucketLookup: l.lookup, Transport: t, MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("the storage's endpoint %s is not valid: %w", l.endpoint, err)
	}
	return &Store{location: l, core: core, transport: t, partSize: 16 << 20, stall: time.Minute}, nil
}

func newTransport() transport {
	return transport{&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConns:          maxIdle,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ExpectContinueTimeout: 10 * time.Second,
		DisableCompression:    true,
	}}
}

var errNoCredentials = errors.New("there are no credentials for the storage: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile of ~/.aws/credentials in AWS_PROFILE, or give this machine a role")

// requiredCredentials is a chain of providers that returns an error if none of them has
// credentials. Without this error, the library would send unsigned requests.
type requiredCredentials struct{ credentials.Chain }

func newCredentials() *credentials.Credentials {
	return credentials.New(&requiredCredentials{credentials.Chain{Providers: []credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}, ExpiryWindow: credentials.DefaultExpiryWindow},
	}}})
}

// RetrieveWithCredContext implements credentials.Provider.
func (r *requiredCredentials) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	v, err := r.Chain.RetrieveWithCredContext(c)
	if err == nil && v.AccessKeyID == "" {
		err = errNoCredentials
	}
	return v, err
}

// Close closes the idle connections. Open readers stay usable.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Bucket returns the bucket with its prefix, as s3://BUCKET/PREFIX.
func (s *Store) Bucket() string { return Scheme + s.bucket + "/" + s.prefix }

// Endpoint returns the server's address, as https://HOST.
func (s *Store) Endpoint() string { return s.endpoint.Scheme + "://" + s.endpoint.Host }

// name returns the name in the bucket of the object with a valid key.
func (s *Store) name(key string) string { return s.prefix + key + suffix }

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	info, err := s.head(ctx, s.name(key))
	if err != nil {
		return blob.Info{}, fmt.Errorf("looking at %s: %w", key, err)
	}
	return blob.Info{Key: key, Size: info.Size}, nil
}

func (s *Store) head(ctx context.Context, name string) (minio.ObjectInfo, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := s.core.StatObject(limited, s.bucket, name, minio.StatObjectOptions{})
	return info, s.explain(ctx, err)
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if err := s.remove(ctx, s.name(key)); err != nil {
		return fmt.Errorf("deleting %s: %w", key, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, name string) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := s.explain(ctx, s.core.RemoveObject(limited, s.bucket, name, minio.RemoveObjectOptions{}))
	if errors.Is(err, blob.ErrNotFound) {
		return nil // some servers report that the object does not exist
	}
	return err
}

// maxTTL is the maximum time for which a signed link can be valid.
const maxTTL = 7 * 24 * time.Hour

// PresignGet implements blob.Presigner. The URL contains the endpoint
// that this process uses, so clients must be able to reach it.
func (s *Store) PresignGet(ctx context.Context, key, fileName, contentType string, ttl time.Duration) (string, error) {
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	if ttl < time.Second || ttl > maxTTL {
		return "", fmt.Errorf("signing a link to %s: %s is not between 1 s and %s", key, ttl, maxTTL)
	}
	q := url.Values{}
	if fileName != "" {
		q.Set("response-content-disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName}))
	}
	if contentType != "" {
		q.Set("response-content-type", contentType)
	}
	u, err := s.core.PresignedGetObject(ctx, s.bucket, s.name(key), ttl, q)
	if err != nil {
		return "", fmt.Errorf("signing a link to %s: %w", key, s.explain(ctx, err))
	}
	return u.String(), nil
}
