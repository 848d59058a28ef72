// CPU twins of the PTX wrappers that an emitted text declares outside `#ifndef TINYIR_SIM` and defines inside it. Read after the text.
#pragma once
