package target

// features of AMD GPUs that can appear in a target ID, as bits.
const (
	featureSRAMECC = 1 << iota
	featureXNACK
)

// featureNames lists the features in the order of their bits, which is the
// alphabetical order that canonical target IDs have.
var featureNames = []string{"sramecc", "xnack"}

// processor is what LLVM 22.1.8 knows of a processor of one architecture.
type processor struct {
	features uint8    // settings that a target ID of this processor may name
	aliases  []string // other names of the same processor
}

// amdgcnProcessors are the processors of amdgcn triples by canonical name.
var amdgcnProcessors = map[string]processor{
	"gfx600":          {aliases: []string{"tahiti"}},
	"gfx601":          {aliases: []string{"pitcairn", "verde"}},
	"gfx602":          {aliases: []string{"hainan", "oland"}},
	"gfx700":          {aliases: []string{"kaveri"}},
	"gfx701":          {aliases: []string{"hawaii"}},
	"gfx702":          {},
	"gfx703":          {aliases: []string{"kabini", "mullins"}},
	"gfx704":          {aliases: []string{"bonaire"}},
	"gfx705":          {},
	"gfx801":          {features: featureXNACK, aliases: []string{"carrizo"}},
	"gfx802":          {aliases: []string{"iceland", "tonga"}},
	"gfx803":          {aliases: []string{"fiji", "polaris10", "polaris11"}},
	"gfx805":          {aliases: []string{"tongapro"}},
	"gfx810":          {features: featureXNACK, aliases: []string{"stoney"}},
	"gfx900":          {features: featureXNACK},
	"gfx902":          {features: featureXNACK},
	"gfx904":          {features: featureXNACK},
	"gfx906":          {features: featureSRAMECC | featureXNACK},
	"gfx908":          {features: featureSRAMECC | featureXNACK},
	"gfx909":          {features: featureXNACK},
	"gfx90a":          {features: featureSRAMECC | featureXNACK},
	"gfx90c":          {features: featureXNACK},
	"gfx942":          {features: featureSRAMECC | featureXNACK},
	"gfx950":          {features: featureSRAMECC | featureXNACK},
	"gfx1010":         {features: featureXNACK},
	"gfx1011":         {features: featureXNACK},
	"gfx1012":         {features: featureXNACK},
	"gfx1013":         {features: featureXNACK},
	"gfx1030":         {},
	"gfx1031":         {},
	"gfx1032":         {},
	"gfx1033":         {},
	"gfx1034":         {},
	"gfx1035":         {},
	"gfx1036":         {},
	"gfx1100":         {},
	"gfx1101":         {},
	"gfx1102":         {},
	"gfx1103":         {},
	"gfx1150":         {},
	"gfx1151":         {},
	"gfx1152":         {},
	"gfx1153":         {},
	"gfx1200":         {},
	"gfx1201":         {},
	"gfx1250":         {},
	"gfx1251":         {},
	"gfx9-generic":    {features: featureXNACK},
	"gfx10-1-generic": {features: featureXNACK},
	"gfx10-3-generic": {},
	"gfx11-generic":   {},
	"gfx12-generic":   {},
	"gfx9-4-generic":  {features: featureSRAMECC | featureXNACK},
}

// r600Processors are the processors of r600 triples by canonical name.
var r600Processors = map[string]processor{
	"r600":    {aliases: []string{"rv630", "rv635"}},
	"r630":    {},
	"barts":   {},
	"caicos":  {},
	"cayman":  {aliases: []string{"aruba"}},
	"cedar":   {aliases: []string{"palm"}},
	"cypress": {aliases: []string{"hemlock"}},
	"juniper": {},
	"redwood": {},
	"rs880":   {aliases: []string{"rs780", "rv610", "rv620"}},
	"rv670":   {},
	"rv710":   {},
	"rv730":   {},
	"rv770":   {aliases: []string{"rv740"}},
	"sumo":    {aliases: []string{"sumo2"}},
	"turks":   {},
}

// otherOffloadArchs are the names that LLVM 22.1.8 accepts as the processor of
// an entry ID beside the canonical amdgcn names.
var otherOffloadArchs = map[string]bool{
	"sm_20": true, "sm_30": true, "sm_35": true, "sm_37": true, "sm_50": true, "sm_52": true,
	"sm_53": true, "sm_60": true, "sm_61": true, "sm_62": true, "sm_70": true, "sm_72": true,
	"sm_75": true, "sm_80": true, "sm_86": true, "sm_87": true, "sm_88": true, "sm_89": true,
	"sm_90": true, "sm_90a": true, "sm_100": true, "sm_100a": true, "sm_101": true,
	"sm_101a": true, "sm_103": true, "sm_103a": true, "sm_110": true, "sm_110a": true,
	"sm_120": true, "sm_120a": true, "sm_121": true, "sm_121a": true, "sm_21": true,
	"sm_32": true, "amdgcnspirv": true, "graniterapids": true, "bmg_g21": true, "generic": true,
}
