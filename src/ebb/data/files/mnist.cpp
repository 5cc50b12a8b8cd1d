#include "ebb/data/files/mnist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/io/array/idx.hpp"

namespace ebb::data {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

// The file, or an error that says where it should come from.
std::string found(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  if (file_exists(path)) return path;
  if (file_exists(path + ".gz")) return path + ".gz";
  throw FileError(
      fmt::format("mnist: there is no \"{}\"; put the four files of the MNIST digits in "
                  "that folder, as they are or unpacked, or use data::digits, which needs none",
                  path));
}

}  // namespace

Dataset mnist(const std::string& folder, Split split, MnistOptions options) {
  const std::string part = split == Split::train ? "train" : "t10k";
  const std::string image_path = found(folder, (part + "-images-idx3-ubyte").c_str());
  const std::string label_path = found(folder, (part + "-labels-idx1-ubyte").c_str());
  const Source images = options.in_memory ? Source(load_idx(image_path))
                                          : idx_rows(image_path, {false, options.cache});
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
