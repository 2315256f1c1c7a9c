package sealed_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/sealing"
)

// encode returns a sealed object in the given version of the format. It implements the
// format from the package's documentation, independently of the package's code.
func encode(version byte, key sealing.DataKey, name string, content []byte) []byte {
	object := append([]byte("\x89STINTe\n"), version, 14, 0, 0)
	object = binary.BigEndian.AppendUint32(object, key.Number)
	salt := bytes.Repeat([]byte{7}, 32)
	if version == 2 {
		object = append(object, must(hkdf.Key(sha256.New, key.Secret[:], nil, "stint key check", 8))...)
		salt = salt[8:]
	}
	info := fmt.Sprintf("stint object v%d\x00%s%s", version, object, name)
	aead := must(cipher.NewGCM(must(aes.NewCipher(must(hkdf.Key(sha256.New, key.Secret[:], salt, info, 32))))))
	object = append(object, salt...)
	for i := uint64(0); ; i++ {
		nonce := append(binary.BigEndian.AppendUint64(make([]byte, 3), i), 0)
		if len(content) <= block {
			nonce[11] = 1
			return aead.Seal(object, nonce, content, nil)
		}
		object = aead.Seal(object, nonce, content[:block], nil)
		content = content[block:]
	}
}

// TestReadAllVersions reads ranges of objects in each version of the format.
func TestReadAllVersions(t *testing.T) {
	t.Parallel()
	keys := newRing()
	key := must(keys.Key(t.Context(), "org_1", 0))
	for _, version := range []byte{1, 2} {
		for _, size := range []int{0, 1, block, 2*block + 9} {
			inner, content := newMemory(), noise(size)
			inner.objects["org_1/a"] = encode(version, key, "org_1/a", content)
			checkRanges(t, fmt.Sprintf("version %d, %d bytes", version, size), inner, keys, content)
		}
	}
}

// checkRanges reads ranges of org_1/a, with and without a cached cipher.
func checkRanges(t *testing.T, what string, inner *memory, keys *ring, content []byte) {
	t.Helper()
	warm := sealed.New(inner, keys)
	if got, err := warm.Stat(t.Context(), "org_1/a"); err != nil || got.Size != int64(len(content)) {
		t.Errorf("%s: Stat returned %+v, %v", what, got, err)
	}
	get(t, warm, "org_1/a")
	for _, offset := range []int{0, 1, block - 1, block, 2 * block, 2*block + 8, 3 * block} {
		want := content[min(offset, len(content)):]
		want = want[:min(5000, len(want))]
		for _, s := range []*sealed.Store{warm, sealed.New(inner, keys)} {
			if got, err := read(t.Context(), s, "org_1/a", int64(offset), 5000); err != nil || !bytes.Equal(want, got) {
				t.Errorf("%s: Get(%d) returned %d bytes, %v; want %d", what, offset, len(got), err, len(want))
			}
		}
	}
}

func TestPutWritesNewestVersion(t *testing.T) {
	t.Parallel()
	inner, keys := newMemory(), newRing()
	put(t, sealed.New(inner, keys), "org_1/a", noise(2*block+9))
	want := encode(2, must(keys.Key(t.Context(), "org_1", 0)), "org_1/a", noise(2*block+9))
	got := inner.objects["org_1/a"]
	if len(got) != len(want) || !bytes.Equal(got[:24], want[:24]) {
		t.Errorf("the object has %d bytes and begins with %x, want %d and %x", len(got), got[:24], len(want), want[:24])
	}
}
