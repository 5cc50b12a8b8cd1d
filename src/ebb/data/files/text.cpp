#include "ebb/data/files/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/data/row_file.hpp"
#include "ebb/io/bytes/pieces.hpp"

namespace ebb::data {

namespace {

struct Windows {
  std::int64_t count, length, stride;
};

Windows cut(std::string_view what, std::uint64_t bytes, std::int64_t window, std::int64_t stride) {
  if (stride == 0) stride = window;
  if (window < 1 || stride < 1)
    throw Error(fmt::format("{}: a window of {} and a stride of {}; both must be at least 1", what,
                            window, stride));
  const auto length = static_cast<std::int64_t>(bytes);
  if (length - 1 < window)
    throw Error(
        fmt::format("{}: {} characters are too few for a window of {} and the character "
                    "after it; give more text or a smaller window",
                    what, length, window));
  return {(length - 1 - window) / stride + 1, window, stride};
}

using SharedCodes = std::shared_ptr<const Codes>;

Dataset windows_of(const Tensor& text, const Windows& w, const SharedCodes& codes) {
  const std::size_t buffer = RowFile::buffer_for(w.count, static_cast<std::size_t>(w.length) + 1,
                                                 static_cast<std::size_t>(w.stride));
  const auto column = [&](std::int64_t offset) {
    const Source at = Source::windows(text, w.count, w.length, w.stride, offset).coded(codes);
    return at.movable(buffer, false);
  };
  return Dataset::of({{"input", column(0)}, {"target", column(1)}});
}

// Each row of the file is a window and the character after it.
Dataset windows_of(File file, const Windows& w, const SharedCodes& codes) {
  const auto length = static_cast<std::size_t>(w.length);
  const auto stride = static_cast<std::size_t>(w.stride);
  const auto rows = std::make_shared<RowFile>(std::move(file), 0, length + 1, stride, w.count);
  const auto column = [&](std::size_t offset) {
    const Source at = Source(rows, {{w.count, w.length}, DType::u8}, offset).coded(codes);
    return at.movable(rows->buffer_bytes(), false);
  };
  return Dataset::of({{"input", column(0)}, {"target", column(1)}});
}

Tensor room_for(std::uint64_t bytes) {
  return Tensor::uninitialized({{static_cast<std::int64_t>(bytes)}, DType::u8}, "text_file",
                               Category::data);
}

bool hold(const TextFileOptions& o, std::uint64_t bytes) {
  return hold(StoreOptions{.in_memory = o.in_memory, .held = o.held}, {bytes});
}

std::string called(const std::string& path) { return fmt::format("text_file \"{}\"", path); }

// The text itself is left where it is: as much memory is counted as it would take, or a file is as long.
Text only_shape(const TextStream& text, const std::string& name, const TextFileOptions& o) {
  const TextShape shape = shape_of(text);
  const Windows windows = cut(called(name), shape.bytes, o.window, o.stride);
  Vocabulary vocabulary(shape.characters);
  if (hold(o, shape.bytes))
    return {windows_of(room_for(shape.bytes), windows, vocabulary.codes()), std::move(vocabulary)};
  File empty = File::temporary(temporary_folder());
  empty.truncate(shape.bytes);
  return {windows_of(std::move(empty), windows, vocabulary.codes()), std::move(vocabulary)};
}

Text in_memory(File file, const std::string& name, const TextFileOptions& o) {
  const std::uint64_t size = file.size();
  const Windows windows = cut(called(name), size, o.window, o.stride);
  Tensor held = room_for(size);
  read_in_pieces(file, 0, {held.bytes(), size});
  Vocabulary vocabulary({reinterpret_cast<const char*>(held.raw()), size});
  return {windows_of(held, windows, vocabulary.codes()), std::move(vocabulary)};
}

}  // namespace

Text text(std::string_view text, TextOptions options) {
  const Windows windows = cut("text", text.size(), options.window, options.stride);
  Vocabulary vocabulary(text);
  const Spec spec{{static_cast<std::int64_t>(text.size())}, DType::u8};
  Tensor held = Tensor::uninitialized(spec, "text", Category::data);
  std::memcpy(held.bytes(), text.data(), text.size());
  return {windows_of(held, windows, vocabulary.codes()), std::move(vocabulary)};
}

Text text_file(const std::string& path, TextFileOptions options) {
  const TextStream text = text_of_files({path});
  if (options.shape_only) return only_shape(text, path, options);
  File file = File::open(path);
  if (hold(options, file.size())) return in_memory(std::move(file), path, options);
  const Windows windows = cut(called(path), file.size(), options.window, options.stride);
  Vocabulary vocabulary(shape_of(text).characters);
  return {windows_of(std::move(file), windows, vocabulary.codes()), std::move(vocabulary)};
}

Text text_windows(const TextStream& text, const std::string& name, TextFileOptions options) {
  if (options.shape_only) return only_shape(text, name, options);
  File file = as_file(text);
  if (hold(options, file.size())) return in_memory(std::move(file), name, options);
  const Windows windows = cut(called(name), file.size(), options.window, options.stride);
  Vocabulary vocabulary(shape_of(text).characters);
  return {windows_of(std::move(file), windows, vocabulary.codes()), std::move(vocabulary)};
}

}  // namespace ebb::data
