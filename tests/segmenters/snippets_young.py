"""Snippets of younger languages: "@|" ends a segment at a line end, "@=|" a block too."""

SNIPPETS = {
    "dart": """\
import 'a.dart';@=|
/// Doc.@|
@immutable
class A extends B {@|
  const A({
    required this.x,
  }) : super();@|
  @override@|
  int f(int a,
      int b) {@|
    var r = g(a,
        b);@|
    if (a > b) {@|
      return 1;@|
    } else {@|
      h();@|
    }@|
    switch (a) {@|
      case 1:@|
        x();@|
      default:@|
        y();@|
    }@|
    r.map((v) {@|
      return v;@|
    });@|
    return [1]
        .map((v) => v)
        .toList();@|
  }@|
  int get q => 1;@|
}@=|
enum E {@|
  p,@|
  q,@|
}@=|
void main() {@|
  f();@|
}@=|
""",
    "elixir": """\
defmodule A do@|
  @moduledoc \"\"\"
  Text.
  \"\"\"@|
  @spec f(integer,
          integer) :: integer@|
  def f(a,
        b) when a > b do@|
    case x do@|
      1 -> h()@|
      _ ->@|
        k()@|
    end@|
    if a do@|
      m()@|
    else@|
      n()@|
    end@|
    Enum.map(x, fn v ->@|
      v + 1@|
    end)
    |> Enum.sum()@|
  end@|
  defp q, do: 1@|
end@=|
""",
    "kotlin": """\
import c.d@=|
/** Doc. */@|
class A(
    val x: Int,
) : B() {@|
    var z: Int = 0@|
        get() = field@|
    @Anno
    fun f(a: Int,
          b: Int): Int {@|
        val r = g(a,
            b) { it ->@|
            it + 1@|
        }@|
        if (a > b) {@|
            return 1@|
        } else if (a == b)@|
            return 2@|
        else {@|
            h()@|
        }@|
        when (a) {@|
            1 -> x()@|
            else -> {@|
                y()@|
            }@|
        }@|
        return listOf(1)
            .map { it }
            .toList()@|
    }@|
}@=|
enum class E {@|
    P,@|
    Q;@|
}@=|
""",
    "lua": """\
local a = {
  x = 1,
}@=|
-- Comment.@|
local function f(p,
    q)@|
  if p then@|
    g()@|
  elseif q then@|
    h()@|
  else@|
    k()@|
  end@|
  for i = 1, 2 do@|
    print(i,
      q)@|
  end@|
  repeat@|
    m()@|
  until p@|
  return f(function()@|
    return 1@|
  end)@|
end@=|
b = [[
text
]]@=|
""",
    "perl": """\
use strict;@=|
# Comment.@|
sub f {@|
    my %h = (
        a => 1,
    );@|
    if ($x) {@|
        g();@|
    } elsif ($y) {@|
        h();@|
    }@|
    else {@|
        k();@|
    }@|
    my $s = sub {@|
        return 1;@|
    };@|
    print <<EOT;
text
  more
EOT@|
    return map { $_ + 1 }
        @_;@|
}@=|
=pod

Text.

=cut@|
1;@=|
""",
    "powershell": """\
# Comment@=|
function Get-A {@|
    [CmdletBinding()]
    param(
        [string]$X
    )@|
    begin {@|
        $a = @{
            b = 1
        }@|
    }@|
    process {@|
        if ($X) {@|
            Get-B -C 1 `
                -D 2@|
        } elseif ($Y) {@|
            Get-C@|
        }@|
        else {@|
            Get-D@|
        }@|
        $i | ForEach-Object {@|
            $_@|
        }@|
        $t = @"
text
"@@|
    }@|
}@=|
class P {@|
    [int]$q@|
    [void] R([int]$s) {@|
        $this.q = $s@|
    }@|
}@=|
""",
    "swift": """\
import Foundation@=|
/// Doc.@|
@objc
class A: B,
    C {@|
    var y: Int {@|
        return 2@|
    }@|
    func f(_ a: Int,
           b: Int) -> Int {@|
        guard let c = d else {@|
            return 1@|
        }@|
        if a > b,
           c {@|
            g()@|
        } else {@|
            h()@|
        }@|
        switch a {@|
        case 1:@|
            x()@|
        default:@|
            y()@|
        }@|
        do {@|
            try k()@|
        } catch {@|
            l()@|
        }@|
        return [1]
            .map { v in@|
                v + 1@|
            }@|
    }@|
}@=|
enum E {@|
    case p@|
}@=|
""",
    "zig": """\
const std = @import("std");@=|
/// Doc.@|
pub const A = struct {@|
    x: u32 = 0,@|
    y: u32,@|
    pub fn f(self: *A,
        b: u32) !void {@|
        const r = try g(self,
            b);@|
        if (b > 1) {@|
            return;@|
        } else {@|
            h();@|
        }@|
        switch (b) {@|
            1 => x(),@|
            else => {@|
                y();@|
            },@|
        }@|
        foo(.{
            .a = 1,
        });@|
    }@|
};@=|
test "t" {@|
    try z();@|
}@=|
""",
}
