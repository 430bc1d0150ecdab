package kernels

import "strings"

// SectionKind is the content of a section.
type SectionKind string

// The kinds of sections.
const (
	CodeSection    SectionKind = "code"
	DebugSection   SectionKind = "debug"   // debug information
	ProfileSection SectionKind = "profile" // counters of profiles and coverage, and what maps them to the source
	OtherSection   SectionKind = ""
)

// Kind returns the content of a section, by the names that LLVM gives to sections.
func (s Section) Kind() SectionKind {
	switch {
	case s.Name == ".text" || strings.HasPrefix(s.Name, ".text."):
		return CodeSection
	case strings.HasPrefix(s.Name, ".debug_"):
		return DebugSection
	case strings.HasPrefix(s.Name, "__llvm_prf_") || strings.HasPrefix(s.Name, "__llvm_cov"):
		return ProfileSection
	}
	return OtherSection
}

// SectionReport are the sections of an image, in the JSON form of offload inspect --sections.
type SectionReport struct {
	File     string          `json:"file,omitempty"` // that contains the image
	Image    int             `json:"image"`          // Image.Index
	ID       string          `json:"id"`
	Arch     string          `json:"arch"`
	Sections []ReportSection `json:"sections"`
}

// ReportSection is a section with its kind.
type ReportSection struct {
	Section
	Kind SectionKind `json:"kind"`
}

// SectionReport returns the sections of a described image, or nil if it has none.
func (img *Image) SectionReport() *SectionReport {
	if len(img.Sections) == 0 {
		return nil
	}
	r := &SectionReport{Image: img.Index, ID: img.ID, Arch: img.Arch}
	for _, s := range img.Sections {
		r.Sections = append(r.Sections, ReportSection{s, s.Kind()})
	}
	return r
}
