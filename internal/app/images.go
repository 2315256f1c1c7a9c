package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/image"
)

// images provides images of the registries that the operator allows.
type images struct {
	*image.Store
	registries []string // empty: all
}

// openImages opens the cache of unpacked images.
func (s *server) openImages(ctx context.Context) (*images, error) {
	store, err := image.Open(ctx, image.Config{Dir: s.data.join("images"), KeepBytes: int64(s.c.ImageCache), Now: time.Now, Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("open images: %w", err)
	}
	s.closeWith(func() error { store.Close(); return nil })
	s.images = &images{store, s.c.Registries}
	return s.images, nil
}

// Acquire is like Acquire of image.Store, but returns an error if the operator does not
// allow the image's registry.
func (i *images) Acquire(ctx context.Context, ref string, progress func(done, total int64)) (*image.Root, error) {
	if err := i.allows(ref); err != nil {
		return nil, err
	}
	return i.Store.Acquire(ctx, ref, progress)
}

// allows returns an error if ref is invalid or if the operator does not allow its
// registry. Without this check, a definition could make the server connect to any host.
func (i *images) allows(ref string) error {
	if ref == "" || ref == "host" {
		return nil
	}
	r, err := image.ParseReference(ref)
	if err != nil {
		return err
	}
	if len(i.registries) > 0 && !slices.Contains(i.registries, r.Registry) {
		return stint.InvalidParam("image", "Images of the registry '%s' are not allowed on this server. Use an image of %s, or ask the operator to allow the registry.", r.Registry, strings.Join(i.registries, ", "))
	}
	return nil
}
