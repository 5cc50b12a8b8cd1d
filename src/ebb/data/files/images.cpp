#include "ebb/data/files/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/image/image.hpp"
#include "ebb/io/text/records.hpp"
#include "ebb/kernels/checksum.hpp"

namespace ebb::data {
namespace {

namespace fs = std::filesystem;

struct Picture {
  std::string path;
  std::int32_t label;
};

bool is_picture(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".png" || ending == ".ppm" || ending == ".pgm" || ending == ".PNG";
}

std::vector<std::string> sorted_names(const fs::path& folder,
                                      bool (*wanted)(const fs::directory_entry&)) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error)
    throw FileError(fmt::format("cannot read folder \"{}\": {}", folder.string(), error.message()));
  for (const fs::directory_entry& entry : entries)
    if (wanted(entry)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Picture> pictures_in(const std::string& folder, std::vector<std::string>& classes) {
  std::vector<Picture> all;
  classes = sorted_names(folder, [](const fs::directory_entry& e) {
    return e.is_directory() && !e.path().filename().string().starts_with('.');
  });
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const fs::path inside = fs::path(folder) / classes[i];
    for (const std::string& name : sorted_names(inside, [](const fs::directory_entry& e) {
           return e.is_regular_file() && is_picture(e.path());
         }))
      all.push_back({(inside / name).string(), static_cast<std::int32_t>(i)});
  }
  if (all.empty())
    throw FileError(
        fmt::format("images: folder \"{}\" has no pictures in folders by class; expected such "
                    "as \"{}/cat/1.png\"",
                    folder, folder));
  return all;
}

// A folder without pictures is a class that nothing is learnt of.
std::vector<std::string> empty_classes(const std::string& folder,
                                       const std::vector<std::string>& classes,
                                       const std::vector<Picture>& pictures) {
  std::vector<bool> has_one(classes.size());
  for (const Picture& p : pictures) has_one[static_cast<std::size_t>(p.label)] = true;
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (!has_one[i])
      notes.push_back(
          fmt::format("{}: folder \"{}\" has no pictures, and is a class all the same; "
                      "take it away if it is none",
                      folder, io::shown(classes[i])));
  return notes;
}

std::string version_of_all(const std::vector<Picture>& pictures) {
  std::uint64_t sum = 0;
  for (const Picture& p : pictures) {
    const std::string one = p.path + version_of(p.path);
    sum = kernels::checksum(one.data(), one.size(), sum);
  }
  return fmt::format("{} files, {:016x}", pictures.size(), sum);
}

Shape parse_shape(const std::string& text) {
  io::Records in("images", text);
  in.next();
  std::int64_t size[3];
  for (std::int64_t& s : size) s = in.number<std::int64_t>();
  return Shape(size);
}

// Some at once, each by a thread of its own.
void unpack(const std::vector<Picture>& pictures, const ImageOptions& options, const Spec& spec,
            RowStoreWriter& writer) {
  constexpr std::size_t kAtOnce = 1 << 20;
  const std::size_t bytes = spec.bytes(), row = bytes + sizeof(std::int32_t);
  const std::size_t several = std::clamp<std::size_t>(kAtOnce / row, 1, 256);
  const memory::Buffer rows(several * row, "images", Category::data);
  for (std::size_t at = 0; at < pictures.size(); at += several) {
    const std::size_t count = std::min(several, pictures.size() - at);
    std::vector<std::exception_ptr> failures(count);
    pool::parallel_for(count, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) try {
          std::byte* const to = rows.data() + i * row;
          load_image(pictures[at + i].path, options, spec, {to, bytes});
          std::memcpy(to + bytes, &pictures[at + i].label, sizeof(std::int32_t));
        } catch (...) {
          failures[i] = std::current_exception();
        }
    });
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);  // the first in order, whichever came first
    writer.add_rows({rows.data(), count * row});
  }
}

Dataset assembled(const RowStore& store, const Shape& shape) {
  const std::size_t bytes = Spec{shape, DType::u8}.bytes();
  return Dataset::of({{"image", store.column(0, DType::u8, shape)},
                      {"label", store.column(bytes, DType::i32)}})
      .scale("image", 1.0f / 255);
}

}  // namespace

Images images(const std::string& folder, ImagesOptions options) {
  std::vector<std::string> classes;
  const std::vector<Picture> pictures = pictures_in(folder, classes);
  if (options.notes) *options.notes = empty_classes(folder, classes, pictures);
  const StoreKey key{
      fmt::format("images 1 {} channels={}", fs::absolute(folder).string(), options.channels),
      options.store.in_memory && !options.store.held ? "" : version_of_all(pictures)};
  if (const auto found = RowStore::find(options.store, key))
    return {assembled(*found, parse_shape(found->text())), std::move(classes)};
  ImageOptions how{.channels = options.channels};
  const Spec spec = image_spec(pictures[0].path, how);
  how.channels = static_cast<int>(spec.shape[2]);  // as the first has them
  const auto rows = static_cast<std::int64_t>(pictures.size());
  RowStoreWriter writer(options.store, key, fmt::format("{}\n", fmt::join(spec.shape.dims(), ",")),
                        {rows, spec.bytes() + sizeof(std::int32_t), {}});
  const RowStore store = writer.fill_all([&] { unpack(pictures, how, spec, writer); });
  return {assembled(store, spec.shape), std::move(classes)};
}

}  // namespace ebb::data
