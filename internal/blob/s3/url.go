package s3

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/stint-dev/stint/internal/blob"
)

// Scheme is the beginning of a bucket's URL.
const Scheme = "s3://"

// location is the result of parsing a URL.
type location struct {
	bucket   string
	prefix   string // empty, or ends with a slash
	endpoint *url.URL
	region   string // empty: requested from the server
	lookup   minio.BucketLookupType
}

// maxPrefix is the maximum length of a prefix in bytes. It leaves room for a key, because
// S3 limits names to 1024 bytes.
const maxPrefix = 400

// parse reads s3://BUCKET[/PREFIX][?endpoint=URL&region=R&path_style=BOOL]. Its
// errors do not repeat parts of the URL that could contain a secret.
func parse(raw string) (location, error) {
	u, err := url.Parse(raw)
	if err != nil || !strings.HasPrefix(raw, Scheme) {
		return location{}, errors.New("the storage is not a URL such as s3://BUCKET/PREFIX")
	}
	if u.User != nil {
		return location{}, errors.New("the storage's URL holds credentials: give them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in ~/.aws/credentials or by a role, never in the URL")
	}
	if u.Fragment != "" {
		return location{}, errors.New("the storage's URL holds a '#'; a bucket's prefix has only a-z, 0-9, '.', '_', '-' and '/'")
	}
	l := location{bucket: u.Host}
	if err := s3utils.CheckValidBucketNameStrict(l.bucket); err != nil {
		return location{}, fmt.Errorf("the bucket's name '%s' is not valid: %w", l.bucket, err)
	}
	if l.prefix, err = parsePrefix(u.Path); err != nil {
		return location{}, err
	}
	return l, l.options(u.RawQuery)
}

func parsePrefix(path string) (string, error) {
	prefix := strings.Trim(path, "/")
	if prefix == "" {
		return "", nil
	}
	if err := blob.CheckKey(prefix); err != nil || len(prefix) > maxPrefix {
		return "", fmt.Errorf("the prefix '%s' is not valid: it has at most %d bytes of a-z, 0-9, '.', '_' and '-', and slashes between them", prefix, maxPrefix)
	}
	return prefix + "/", nil
}

var optionNames = []string{"endpoint", "region", "path_style"}

func (l *location) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the text after the '?' of the storage's URL is not a list of options such as region=eu-central-1")
	}
	for name, v := range values {
		if !slices.Contains(optionNames, name) || len(v) != 1 {
			return fmt.Errorf("the storage's URL has an option that is unknown or repeated; the options are %s", strings.Join(optionNames, ", "))
		}
	}
	if l.endpoint, err = parseEndpoint(values.Get("endpoint")); err != nil {
		return err
	}
	l.region = values.Get("region")
	if style := values.Get("path_style"); style != "" {
		l.lookup, err = parseStyle(style)
	}
	return err
}

const amazon = "https://s3.amazonaws.com"

func parseEndpoint(raw string) (*url.URL, error) {
	if raw == "" {
		raw = amazon
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the storage's endpoint is not a URL such as https://s3.example.com:9000, without path and credentials")
	}
	return u, nil
}

func parseStyle(v string) (minio.BucketLookupType, error) {
	path, err := strconv.ParseBool(v)
	switch {
	case err != nil:
		return 0, fmt.Errorf("path_style of the storage's URL is true or false, not '%s'", v)
	case path:
		return minio.BucketLookupPath, nil
	default:
		return minio.BucketLookupDNS, nil
	}
}
