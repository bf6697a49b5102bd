// The values that codes stand for, for values with variance 1. Codes rise with the values: those of
// the negative ones come first. Magnitudes are symmetric about zero.
//
// Up to 4 bits they are the levels with the least squared error for a Gaussian. With more bits the
// magnitudes are cut into 8 segments, each with as many levels at equal distances: within 7 % of
// the least error, and as quick to find. perf/lloyd_levels.py makes the tables.
#ifndef COMPRESS_KERNELS_LLOYD_LEVELS_H_
#define COMPRESS_KERNELS_LLOYD_LEVELS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::lloyd {

inline constexpr std::size_t kSegments = 8;
/// Where a table has fewer segments, the others begin here: no magnitude reaches it.
inline constexpr float kUnreached = 1e30f;

/// Magnitudes of one width.
struct LevelTable {
  int cell_bits;                   // log2 of the levels per segment.
  float starts[kSegments + 1];     // Of the segments; the last entry is kUnreached.
  float lowest_levels[kSegments];  // Of a segment.
  float steps[kSegments];          // Between the levels of a segment; 0 where it has one.
  float inverse_steps[kSegments];
};

inline constexpr LevelTable kLevelTables[10] = {
    {0,
     {0.0f, 1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, kUnreached},
     {0.797884583f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}},
    {0,
     {0.0f, 0.981629133f, 1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f, kUnreached},
     {0.452799827f, 1.51045847f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}},
    {0,
     {0.0f, 0.500631034f, 1.05008852f, 1.74807596f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, 1000000000000000019884624838656.0f,
      1000000000000000019884624838656.0f, kUnreached},
     {0.245141223f, 0.756120861f, 1.34405637f, 2.15209579f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}},
    {0,
     {0.0f, 0.258431613f, 0.52277863f, 0.80003351f, 1.0998379f, 1.43773103f, 1.84412551f,
      2.40134192f, kUnreached},
     {0.128507301f, 0.388355941f, 0.65720135f, 0.94286567f, 1.25681007f, 1.61865211f, 2.06959891f,
      2.73308516f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
     {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}},
    {1,
     {0.0f, 0.268282682f, 0.542981267f, 0.831625342f, 1.14552879f, 1.50047517f, 1.93152785f,
      2.5124259f, kUnreached},
     {0.0670706704f, 0.336957335f, 0.615142286f, 0.910101175f, 1.23426545f, 1.60823834f,
      2.07675242f, 2.74611449f},
     {0.134141341f, 0.137349293f, 0.144322023f, 0.15695174f, 0.177473217f, 0.215526313f,
      0.290449083f, 0.467377096f},
     {7.45482302f, 7.28070736f, 6.92894983f, 6.37138557f, 5.63465309f, 4.63980484f, 3.44294429f,
      2.13960004f}},
    {2,
     {0.0f, 0.273275375f, 0.554175138f, 0.850375295f, 1.17327535f, 1.54212558f, 1.99412549f,
      2.6270256f, kUnreached},
     {0.0341594219f, 0.308387846f, 0.591200173f, 0.890737832f, 1.21938169f, 1.59862554f, 2.0732379f,
      2.77290583f},
     {0.0683188438f, 0.0702249408f, 0.0740500465f, 0.0807250142f, 0.0922125578f, 0.112999976f,
      0.15822503f, 0.291760445f},
     {14.6372509f, 14.2399549f, 13.5043802f, 12.3877344f, 10.8445101f, 8.84955978f, 6.32011271f,
      3.42746949f}},
    {3,
     {0.0f, 0.278280258f, 0.563684404f, 0.8649261f, 1.19598043f, 1.57547522f, 2.05037546f,
      2.7311759f, kUnreached},
     {0.0173925161f, 0.296117991f, 0.582512021f, 0.885617018f, 1.21969891f, 1.60515654f,
      2.09292555f, 2.81774068f},
     {0.0347850323f, 0.0356755182f, 0.037655212f, 0.041381795f, 0.0474368446f, 0.0593625344f,
      0.0851000622f, 0.173129365f},
     {28.7479973f, 28.030426f, 26.5567493f, 24.1652164f, 21.0806599f, 16.8456421f, 11.7508726f,
      5.77602768f}},
    {4,
     {0.0f, 0.282735825f, 0.57292515f, 0.881137013f, 1.21907616f, 1.60877597f, 2.10037541f,
      2.8249259f, kUnreached},
     {0.00883549452f, 0.291804224f, 0.582556725f, 0.891697645f, 1.23125422f, 1.62413847f,
      2.12301779f, 2.8748548f},
     {0.017670989f, 0.0181368329f, 0.0192632452f, 0.0211211946f, 0.0243562404f, 0.0307249688f,
      0.0452844054f, 0.099857375f},
     {56.5899315f, 55.1364212f, 51.9123344f, 47.3458061f, 41.0572395f, 32.5468178f, 22.0826569f,
      10.0142822f}},
    {5,
     {0.0f, 0.286397934f, 0.581225932f, 0.89378351f, 1.23782611f, 1.63777995f, 2.14412546f,
      2.91242599f, kUnreached},
     {0.00447496772f, 0.291004598f, 0.586109638f, 0.899159193f, 1.24407542f, 1.64569151f,
      2.15613031f, 2.94064569f},
     {0.00894993544f, 0.00921337493f, 0.00976742525f, 0.0107513322f, 0.0124985548f, 0.0158232991f,
      0.0240093917f, 0.0564392321f},
     {111.732651f, 108.537865f, 102.381126f, 93.0117264f, 80.0092468f, 63.1979446f, 41.6503677f,
      17.7181721f}},
    {6,
     {0.0f, 0.289583951f, 0.587207377f, 0.902377248f, 1.25022852f, 1.65667641f, 2.17537546f,
      2.9811759f, kUnreached},
     {0.00226237462f, 0.291909128f, 0.589669645f, 0.905094862f, 1.2534039f, 1.66072869f, 2.1816709f,
      2.99691796f},
     {0.00452474924f, 0.00465036556f, 0.00492453016f, 0.00543517526f, 0.00635074824f,
      0.00810467359f, 0.0125906328f, 0.0314840451f},
     {221.006714f, 215.036865f, 203.065063f, 183.98671f, 157.461761f, 123.385597f, 79.4241257f,
      31.7621212f}},
};

/// `bits` from 1 to 10, sign included. Kernels get theirs as an argument.
inline const LevelTable& level_table(int bits) {
  return kLevelTables[bits - 1];
}

struct Level {
  std::uint32_t index;
  float value;
};

RINGPRESS_HOST_DEVICE inline float level_value(const LevelTable& table, std::uint32_t index) {
  const std::uint32_t segment = index >> table.cell_bits;
  const std::uint32_t cell = index & ((1u << table.cell_bits) - 1u);
  return table.lowest_levels[segment] + static_cast<float>(cell) * table.steps[segment];
}

/// The level of the cell that a finite magnitude falls into.
RINGPRESS_HOST_DEVICE inline Level nearest_level(const LevelTable& table, float magnitude) {
  std::uint32_t segment = 0;
  for (std::size_t k = 1; k < kSegments; ++k) segment += magnitude >= table.starts[k] ? 1 : 0;
  const float offset = (magnitude - table.starts[segment]) * table.inverse_steps[segment];
  const std::uint32_t last = (1u << table.cell_bits) - 1u;
  std::uint32_t cell = static_cast<std::uint32_t>(offset);
  cell = cell < last ? cell : last;
  const std::uint32_t index = (segment << table.cell_bits) + cell;
  return {index, table.lowest_levels[segment] + static_cast<float>(cell) * table.steps[segment]};
}

/// The code of a magnitude index with a sign.
RINGPRESS_HOST_DEVICE inline std::uint32_t code_of(int bits, std::uint32_t index, bool is_minus) {
  const std::uint32_t magnitudes = 1u << (bits - 1);
  return is_minus ? magnitudes - 1 - index : magnitudes + index;
}

inline float signed_level_value(int bits, std::uint32_t code) {
  const std::uint32_t magnitudes = 1u << (bits - 1);
  const bool is_minus = code < magnitudes;
  const float value =
      level_value(level_table(bits), is_minus ? magnitudes - 1 - code : code - magnitudes);
  return is_minus ? -value : value;
}

// Up to 4 bits a code may be found through cells of equal width: so narrow that at most one code
// begins within each, and far enough from where codes begin that a value near the edge of a cell
// may be taken for one of either cell.
inline constexpr int kMostCellBits = 4;
inline constexpr std::int32_t kCells = 16;  // On either side of zero.
inline constexpr float kCellsPerDeviation = 6.25f;
/// Magnitudes are limited to this many cells.
inline constexpr float kCellLimit = 15.25f;

/// One width. Cell number c, from -16 to 15, holds the values nearest to c cells; entries are
/// indexed by its lowest five bits.
struct CellTable {
  float starts[2 * kCells];         // Where a code begins within it, or kUnreached.
  std::uint32_t codes[2 * kCells];  // Of values below that.
  float levels[kCells];             // Of codes, again and again for less than 4 bits.
};

/// Where code number `code` > 0 begins.
constexpr float code_start(int bits, std::uint32_t code) {
  const std::uint32_t magnitudes = 1u << (bits - 1);
  const float* starts = kLevelTables[bits - 1].starts;
  return code >= magnitudes ? starts[code - magnitudes] : -starts[magnitudes - code];
}

constexpr CellTable make_cell_table(int bits) {
  CellTable table{};
  const std::uint32_t count = 1u << bits;
  for (std::int32_t cell = -kCells; cell < kCells; ++cell) {
    const float begin = (static_cast<float>(cell) - 0.5f) / kCellsPerDeviation;
    const float end = (static_cast<float>(cell) + 0.5f) / kCellsPerDeviation;
    std::uint32_t code = 0;
    while (code + 1 < count && code_start(bits, code + 1) <= begin) ++code;
    const bool ends_within = code + 1 < count && code_start(bits, code + 1) < end;
    table.codes[cell & (2 * kCells - 1)] = code;
    table.starts[cell & (2 * kCells - 1)] = ends_within ? code_start(bits, code + 1) : kUnreached;
  }
  for (std::uint32_t i = 0; i < kCells; ++i) {
    const std::uint32_t code = i % count;
    const std::uint32_t magnitudes = count / 2;
    const float* levels = kLevelTables[bits - 1].lowest_levels;
    table.levels[i] =
        code >= magnitudes ? levels[code - magnitudes] : -levels[magnitudes - 1 - code];
  }
  return table;
}

inline constexpr CellTable kCellTables[kMostCellBits] = {make_cell_table(1), make_cell_table(2),
                                                         make_cell_table(3), make_cell_table(4)};

struct SignedLevel {
  std::uint32_t code;
  float value;
};

/// The level of a finite value, for values of this deviation.
inline SignedLevel nearest_signed_level(int bits, float value, float deviation) {
  if (bits > kMostCellBits) {
    const float magnitude = core::float_of(core::magnitude_bits(value));
    const Level level = nearest_level(level_table(bits), magnitude * (1.0f / deviation));
    const bool is_minus = core::bits_of(value) >> 31 != 0;
    return {code_of(bits, level.index, is_minus), is_minus ? -level.value : level.value};
  }
  std::uint32_t code = 0;
  while (code + 1 < (1u << bits) && value >= code_start(bits, code + 1) * deviation) ++code;
  return {code, signed_level_value(bits, code)};
}

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_LEVELS_H_
