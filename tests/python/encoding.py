"""The one encoding of proto-docs/conventions.md.

A type has `write(value) -> bytes` and `read(reader) -> value`. Values are what the vectors' JSON holds:
bytes are hexadecimal texts, an enum is its variant's name or {name: payload}, a struct is an object.
"""


class Refused(Exception):
    """What came in is not acceptable; the reason is one of the documents' words."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Refused("end")
        self.at += count
        return self.data[self.at - count : self.at]


def decode(kind, data):
    reader = Reader(data)
    value = kind.read(reader)
    if reader.at != len(data):
        raise Refused("left-over")
    return value


def unhex(text):
    """Bytes of a JSON value; an empty list is how JSON shows an empty list of bytes."""
    return b"" if text == [] else bytes.fromhex(text)


class Int:
    def __init__(self, width):
        self.width = width

    def write(self, value):
        return int(value).to_bytes(self.width, "big")

    def read(self, reader):
        value = int.from_bytes(reader.take(self.width), "big")
        return value if value < 1 << 53 else str(value)


U8, U16, U32, U64 = Int(1), Int(2), Int(4), Int(8)


class Bool:
    def write(self, value):
        return bytes([value])

    def read(self, reader):
        byte = reader.take(1)[0]
        if byte > 1:
            raise Refused("tag")
        return byte == 1


class Unit:
    def write(self, value):
        return b""

    def read(self, reader):
        return None


class Fixed:
    """Bytes of a known number, without a length."""

    def __init__(self, width, check=None):
        self.width = width
        self.check = check

    def write(self, value):
        data = unhex(value)
        assert len(data) == self.width
        return data

    def read(self, reader):
        data = reader.take(self.width)
        if self.check:
            self.check(data)
        return data.hex()


class ByteList:
    def __init__(self, check=None):
        self.check = check

    def write(self, value):
        data = unhex(value)
        return U64.write(len(data)) + data

    def read(self, reader):
        data = reader.take(int(U64.read(reader)))
        if self.check:
            self.check(data)
        return data.hex() or []


class Text:
    def __init__(self, check=None):
        self.check = check

    def write(self, value):
        data = value.encode()
        return U64.write(len(data)) + data

    def read(self, reader):
        data = reader.take(int(U64.read(reader)))
        try:
            text = data.decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise Refused("text") from None
        if self.check:
            self.check(text)
        return text


class List:
    def __init__(self, item, check=None):
        self.item = item
        self.check = check

    def write(self, value):
        return U64.write(len(value)) + b"".join(self.item.write(one) for one in value)

    def read(self, reader):
        value = []
        for _ in range(int(U64.read(reader))):
            value.append(self.item.read(reader))
        if self.check:
            self.check(value)
        return value


class Array(List):
    """A known number of items, without a length."""

    def __init__(self, item, count):
        super().__init__(item)
        self.count = count

    def write(self, value):
        assert len(value) == self.count
        return b"".join(self.item.write(one) for one in value)

    def read(self, reader):
        return [self.item.read(reader) for _ in range(self.count)]


class Option:
    def __init__(self, item):
        self.item = item

    def write(self, value):
        return b"\0" if value is None else b"\1" + self.item.write(value)

    def read(self, reader):
        return self.item.read(reader) if Bool().read(reader) else None


class Tuple:
    def __init__(self, *items):
        self.items = items

    def write(self, value):
        assert len(value) == len(self.items)
        return b"".join(item.write(one) for item, one in zip(self.items, value))

    def read(self, reader):
        return [item.read(reader) for item in self.items]


class Struct:
    def __init__(self, fields, check=None):
        self.fields = fields
        self.check = check

    def write(self, value):
        assert set(value) == set(self.fields), value
        return b"".join(kind.write(value[name]) for name, kind in self.fields.items())

    def read(self, reader):
        value = {name: kind.read(reader) for name, kind in self.fields.items()}
        if self.check:
            self.check(value)
        return value


class Enum:
    """Variants in the order of their numbers; a name alone has no payload."""

    def __init__(self, *variants):
        self.variants = [one if isinstance(one, tuple) else (one, None) for one in variants]

    def write(self, value):
        wanted = value if isinstance(value, str) else next(iter(value))
        for number, (name, kind) in enumerate(self.variants):
            if name == wanted:
                return U32.write(number) + (kind.write(value[name]) if kind else b"")
        raise AssertionError(f"no variant {wanted}")

    def read(self, reader):
        number = U32.read(reader)
        if number >= len(self.variants):
            raise Refused("tag")
        name, kind = self.variants[number]
        return {name: kind.read(reader)} if kind else name


def Result(good, bad):
    return Enum(("Ok", good), ("Err", bad))
