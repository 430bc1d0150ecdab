package reapi

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// merged reads low_api_version of a ServerCapabilities as protobuf does: later fields over earlier ones.
func merged(t *testing.T, capabilities []byte) (major, minor uint64) {
	t.Helper()
	for len(capabilities) > 0 {
		number, kind, n := protowire.ConsumeTag(capabilities)
		capabilities = capabilities[n:]
		if number != 4 {
			capabilities = capabilities[protowire.ConsumeFieldValue(number, kind, capabilities):]
			continue
		}
		version, n := protowire.ConsumeBytes(capabilities)
		capabilities = capabilities[n:]
		for len(version) > 0 {
			number, _, n := protowire.ConsumeTag(version)
			value, m := protowire.ConsumeVarint(version[n:])
			version = version[n+m:]
			switch number {
			case 1:
				major = value
			case 2:
				minor = value
			}
		}
	}
	return major, minor
}

func TestAnnounceOldest(t *testing.T) {
	version := []byte{0x08, 2, 0x10, 1} // 2.1
	for name, capabilities := range map[string][]byte{
		"empty":        nil,
		"version 2.1":  protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), version),
		"other fields": {0x12, 0x00, 0x22, 0x04, 0x08, 2, 0x10, 3, 0x2a, 0x00},
	} {
		t.Run(name, func(t *testing.T) {
			before := string(capabilities)
			major, minor := merged(t, announceOldest(capabilities))
			if major != 2 || minor != 0 {
				t.Errorf("low_api_version is %d.%d, want 2.0", major, minor)
			}
			if string(capabilities) != before {
				t.Error("the argument was changed")
			}
		})
	}
}
