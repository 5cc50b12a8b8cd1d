// What manifest.json of a checkpoint says, as a value, and as text.
//
//   {
//    "format": 1, "written": 1768000000000000, "step": 1200, "epoch": 3,
//    "position": "epoch=3 batch=17 …",
//    "metric": "loss", "value": 0.25, "best": 0.24,
//    "random": {"seed": 1, "step": 1200, "draw": 0},
//    "extra": {"config": "…"},
//    "files": [{"name": "model.safetensors", "bytes": 4096, "xxh3": "0123456789abcdef", "tensors": [
//      {"name": "up.weight", "dtype": "F32", "shape": [33, 12], "xxh3": "…"}, …]}, …],
//    "checksum": "…"
//   }
//
// Checksums are XXH3, 64 bits, in hexadecimal digits: of a whole file, of a tensor's bytes, and the last one of
// the manifest's own text up to its digits. A manifest is untrusted: a key that is unknown, missing or there twice,
// a value of another type, a length beyond reason, a file of another name is an error, and none of it takes more
// memory than a few times the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/tensor/spec.hpp"
#include "ebb/train/checkpoint/checkpoint.hpp"

namespace ebb::train {

inline constexpr char kManifestName[] = "manifest.json", kModelName[] = "model.safetensors",
                      kStateName[] = "state.safetensors";

struct ManifestTensor {
  std::string name;
  Spec spec;
  std::uint64_t checksum = 0;
  bool operator==(const ManifestTensor&) const = default;
};

struct ManifestFile {
  std::string name;  // kModelName or kStateName
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::vector<ManifestTensor> tensors = {};  // in the order of their bytes
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  static constexpr std::uint64_t kFormat = 1;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;  // of its text

  CheckpointInfo info;
  std::int64_t written = 0;  // when: microseconds since 1970; 0 where nobody asked
  std::uint64_t seed = 0, random_step = 0, draw = 0;  // where random draws stood
  std::vector<ManifestFile> files;                    // kModelName, then kStateName

  const ManifestFile& model() const { return files.at(0); }
  const ManifestFile& state() const { return files.at(1); }
  bool operator==(const Manifest&) const = default;
};

std::string to_json(const Manifest& manifest);
// What to_json gave; anything else is an Error that says what is wrong with it.
Manifest parse_manifest(std::string_view text);

// That of a directory; the lengths of the files are as it says. A FileError names the directory.
Manifest read_manifest(const std::string& directory);

}  // namespace ebb::train
