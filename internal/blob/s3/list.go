package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
)

// List implements blob.Store. Objects that are created or deleted during the walk
// may or may not be listed. Objects that this package did not store are skipped.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if !blob.CanStartKey(prefix) {
			return
		}
		for o, err := range s.names(ctx, s.prefix+prefix) {
			if err != nil {
				yield(blob.Info{}, fmt.Errorf("listing %q: %w", prefix, err))
				return
			}
			key, isOurs := strings.CutSuffix(strings.TrimPrefix(o.Key, s.prefix), suffix)
			if !isOurs || blob.CheckKey(key) != nil {
				continue
			}
			if !yield(blob.Info{Key: key, Size: o.Size}, nil) {
				return
			}
		}
	}
}

// names walks all objects in the bucket with names that start with prefix, in order of
// the names. If the response with a page breaks off, names requests the rest. The
// library retries failed requests.
func (s *Store) names(ctx context.Context, prefix string) iter.Seq2[minio.ObjectInfo, error] {
	return func(yield func(minio.ObjectInfo, error) bool) {
		last := ""
		for broken := 0; ; {
			if ctx.Err() != nil {
				yield(minio.ObjectInfo{}, context.Cause(ctx))
				return
			}
			before := last
			stopped, err := s.walk(ctx, prefix, &last, yield)
			if stopped || err == nil && ctx.Err() == nil {
				return
			}
			if last != before {
				broken = 0
			}
			if broken++; !brokeOff(err) || broken > maxBreaks || pause(ctx, broken) != nil {
				yield(minio.ObjectInfo{}, s.explain(ctx, err))
				return
			}
		}
	}
}

// walk yields the objects with names after *last, and sets *last to each yielded name.
// stopped reports whether yield returned false.
func (s *Store) walk(ctx context.Context, prefix string, last *string, yield func(minio.ObjectInfo, error) bool) (stopped bool, err error) {
	owner := false
	o := minio.ListObjectsOptions{Prefix: prefix, Recursive: true, StartAfter: *last, MaxKeys: s.pageSize, FetchOwner: &owner}
	for info := range s.core.ListObjectsIter(ctx, s.bucket, o) {
		if info.Err != nil {
			return false, info.Err
		}
		if info.Key <= *last {
			return false, fmt.Errorf("it lists '%s' after '%s', out of order", info.Key, *last)
		}
		*last = info.Key
		if !yield(info, nil) {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// brokeOff reports whether err means that a response began but was not completed. It
// returns false for a failed request and for an error response.
func brokeOff(err error) bool {
	if _, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return false
	}
	_, failed := errors.AsType[*url.Error](err)
	return !failed && !errors.Is(err, context.Canceled)
}

// RemoveAbandoned deletes multipart uploads and probe objects that crashed processes
// left below the store's prefix, and returns their number. It deletes all that were
// begun before the given time, so uploads in progress must have begun later.
func (s *Store) RemoveAbandoned(ctx context.Context, before time.Time) (int, error) {
	uploads, err := s.abandonedUploads(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("listing abandoned uploads: %w", err)
	}
	for i := range uploads {
		if err := uploads[i].abort(ctx); err != nil {
			return i, fmt.Errorf("abandoned upload of %s: %w", uploads[i].name, err)
		}
	}
	n := len(uploads)
	for o, err := range s.names(ctx, s.prefix+probePrefix) {
		if err == nil && o.LastModified.Before(before) {
			err, n = s.remove(ctx, o.Key), n+1
		}
		if err != nil {
			return n, fmt.Errorf("removing probe objects: %w", err)
		}
	}
	return n, nil
}

func (s *Store) abandonedUploads(ctx context.Context, before time.Time) (found []upload, err error) {
	key, id := "", ""
	for {
		page, err := s.core.ListMultipartUploads(ctx, s.bucket, s.prefix, key, id, "", s.pageSize)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		for _, u := range page.Uploads {
			if u.Initiated.Before(before) {
				found = append(found, upload{s: s, name: u.Key, id: u.UploadID})
			}
		}
		if !page.IsTruncated || page.NextKeyMarker == key && page.NextUploadIDMarker == id {
			return found, nil
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}
