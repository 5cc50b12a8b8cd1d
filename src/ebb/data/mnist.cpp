#include "ebb/data/mnist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/data/row_file.hpp"

namespace ebb::data {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

// The file, or an error that says where it should come from.
std::string found(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  if (file_exists(path)) return path;
  if (file_exists(path + ".gz"))
    throw FileError(
        fmt::format("mnist: \"{}.gz\" is packed; unpack it: gunzip -k \"{}.gz\"", path, path));
  throw FileError(
      fmt::format("mnist: there is no \"{}\"; put the four files of the MNIST digits, "
                  "unpacked, in that folder, or use data::digits, which needs none",
                  path));
}

struct Idx {
  File file;
  Spec spec;
  std::uint64_t start;  // of the elements
};

// Two zeros, a byte for the type, a byte for the rank, the sizes, the elements; all big-endian.
Idx open_idx(const std::string& path) {
  File file = File::open(path);
  const std::uint64_t size = file.size();
  std::uint8_t front[4 + 4 * Shape::kMaxRank];
  const auto bytes = std::as_writable_bytes(std::span(front));
  if (size < 4) refuse(path, fmt::format("{} bytes are too few for an idx file", size));
  file.read(bytes.first(4));
  if (front[0] == 0x1f && front[1] == 0x8b) refuse(path, "it is packed; unpack it with gunzip");
  if (front[0] != 0 || front[1] != 0) refuse(path, "it does not start as an idx file does");
  DType dtype{};
  switch (front[2]) {
    case 0x08:
      dtype = DType::u8;
      break;
    case 0x0c:
      dtype = DType::i32;
      break;
    case 0x0d:
      dtype = DType::f32;
      break;
    case 0x0e:
      dtype = DType::f64;
      break;
    case 0x09:
    case 0x0b:
      refuse(path, "its integers of 8 or 16 bits with a sign are not supported");
    default:
      refuse(path, fmt::format("its element type {} is unknown", front[2]));
  }
  const int rank = front[3];
  if (rank > Shape::kMaxRank)
    refuse(path, fmt::format("it has {} axes; at most {} are supported", rank, +Shape::kMaxRank));
  const std::uint64_t start = 4 + 4 * static_cast<std::uint64_t>(rank);
  if (size < start) refuse(path, "it ends inside its header; the file is cut short");
  file.read(bytes.subspan(4, start - 4));

  std::int64_t dims[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const std::uint8_t* d = front + 4 + 4 * i;
    dims[i] = std::int64_t{d[0]} << 24 | d[1] << 16 | d[2] << 8 | d[3];
  }
  Spec spec;
  try {
    spec = {Shape(std::span<const std::int64_t>(dims, static_cast<std::size_t>(rank))), dtype};
  } catch (const Error& error) {
    refuse(path, error.what());
  }
  if (size != start + spec.bytes())
    refuse(path,
           fmt::format("{} needs a file of {} bytes, and this one has {}; the file is damaged, "
                       "get a new copy",
                       to_string(spec), start + spec.bytes(), size));
  return {std::move(file), spec, start};
}

constexpr bool kSwapped = std::endian::native == std::endian::little;

}  // namespace

Tensor load_idx(const std::string& path) {
  auto [file, spec, start] = open_idx(path);
  Tensor out = Tensor::uninitialized(spec, "load_idx", Category::data);
  read_in_pieces(file, start, {out.bytes(), spec.bytes()});
  const std::size_t width = size_of(spec.dtype);
  if (width > 1 && kSwapped)
    for (std::byte *p = out.bytes(), *end = p + spec.bytes(); p != end; p += width)
      std::reverse(p, p + width);
  return out;
}

Source idx_rows(const std::string& path) {
  auto [file, spec, start] = open_idx(path);
  if (spec.rank() == 0) refuse(path, "it is a single number; expected rows");
  const std::int64_t rows = spec.shape[0];
  const std::size_t row = rows ? spec.bytes() / static_cast<std::size_t>(rows) : 0;
  return {std::make_shared<RowFile>(std::move(file), start, row, row, rows), spec, 0, kSwapped};
}

Dataset mnist(const std::string& folder, Split split, MnistOptions options) {
  const std::string part = split == Split::train ? "train" : "t10k";
  const std::string image_path = found(folder, (part + "-images-idx3-ubyte").c_str());
  const std::string label_path = found(folder, (part + "-labels-idx1-ubyte").c_str());
  const Source images = options.in_memory ? Source(load_idx(image_path)) : idx_rows(image_path);
  const Tensor labels = load_idx(label_path);
  const Spec& spec = images.spec();
  if (spec.rank() != 3 || spec.dtype != DType::u8)
    refuse(image_path,
           fmt::format("it holds {}; expected images, u8(count, height, width)", to_string(spec)));
  if (labels.rank() != 1 || labels.dtype() != DType::u8)
    refuse(label_path,
           fmt::format("it holds {}; expected labels, u8(count)", to_string(labels.spec())));
  if (spec.shape[0] != labels.dim(0))
    refuse(label_path, fmt::format("it has {} labels, and there are {} images; the files do not "
                                   "belong together",
                                   labels.dim(0), spec.shape[0]));
  for (const std::uint8_t label : labels.data<std::uint8_t>())
    if (label > 9) refuse(label_path, fmt::format("it has a label {}; expected 0 to 9", label));
  Codes digits;
  std::iota(digits.begin(), digits.end(), 0);
  const Source answers = Source(labels).coded(std::make_shared<Codes>(digits));
  return Dataset::of({{"image", images.flat()}, {"label", answers}}).scale("image", 1.0f / 255);
}

}  // namespace ebb::data
